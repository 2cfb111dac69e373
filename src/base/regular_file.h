// A file that another user may have written, opened and read without waiting for anything but its
// disk: a FIFO, a device or a socket in its place is an error.
//
// A value; any thread, one at a time.
#pragma once

#include <sys/stat.h>

#include <cstdint>
#include <string>

#include "base/fd.h"
#include "base/result.h"

namespace sluice {

class RegularFile {
 public:
  // Opens what a user names. Follows links. Returns kInvalid if it is missing, not readable, or of
  // another kind.
  static Result<RegularFile> open(const std::string& path);
  // Opens a folder's entry, which must not be a link. `shown`: its path, for errors.
  static Result<RegularFile> open_at(int folder, const std::string& name, const std::string& shown);
  // Takes over an open descriptor.
  static Result<RegularFile> of(Fd fd, const std::string& shown);

  uint64_t size() const { return static_cast<uint64_t>(about_.st_size); }
  const struct stat& about() const { return about_; }  // its state at open()
  int fd() const { return fd_.get(); }
  // Returns less than `size` bytes at the file's end.
  std::string read(uint64_t offset, size_t size) const;
  // Returns how many bytes there were.
  size_t read(uint64_t offset, void* to, size_t size) const;
  // Returns the whole file. Returns kInvalid if it is larger than `most`.
  Result<std::string> text(size_t most) const;

 private:
  RegularFile(Fd fd, const struct stat& about, std::string shown)
      : fd_(std::move(fd)), about_(about), shown_(std::move(shown)) {}

  Fd fd_;
  struct stat about_;
  std::string shown_;
};

}  // namespace sluice
