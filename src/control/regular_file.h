// A file that a user names, opened and read without waiting for anything but its disk: a FIFO, a
// device or a socket in its place is an error.
//
// A value; any thread, one at a time.
#pragma once

#include <sys/stat.h>

#include <cstdint>
#include <string>

#include "base/fd.h"
#include "base/result.h"

namespace sluice::control {

class RegularFile {
 public:
  // Returns kInvalid if it is missing, not readable, or of another kind.
  static Result<RegularFile> open(const std::string& path);

  uint64_t size() const { return static_cast<uint64_t>(about_.st_size); }
  const struct stat& about() const { return about_; }  // its state at open()
  int fd() const { return fd_.get(); }
  // Returns less than `size` bytes at the file's end.
  std::string read(uint64_t offset, size_t size) const;

 private:
  RegularFile(Fd fd, const struct stat& about) : fd_(std::move(fd)), about_(about) {}

  Fd fd_;
  struct stat about_;
};

}  // namespace sluice::control
