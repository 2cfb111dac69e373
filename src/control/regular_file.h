// A file that a user names, opened and read without waiting for anything but its disk: a FIFO, a
// device or a socket in its place is an error.
//
// A value; any thread, one at a time.
#pragma once

#include <cstdint>
#include <string>

#include "base/fd.h"
#include "base/result.h"

namespace sluice::control {

class RegularFile {
 public:
  // kInvalid: missing, not readable, or of another kind.
  static Result<RegularFile> open(const std::string& path);

  uint64_t size() const { return size_; }
  // Returns less than `size` bytes where the file ends before.
  std::string read(uint64_t offset, size_t size) const;

 private:
  RegularFile(Fd fd, uint64_t size) : fd_(std::move(fd)), size_(size) {}

  Fd fd_;
  uint64_t size_;
};

}  // namespace sluice::control
