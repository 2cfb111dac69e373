#include "control/regular_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

namespace sluice::control {

Result<RegularFile> RegularFile::open(const std::string& path) {
  const auto invalid = [&](const std::string& why) {
    return Error{ErrorKind::kInvalid, path + ": " + why};
  };
  // Non-blocking: otherwise the open of a FIFO waits for a writer.
  Fd fd(::open(path.c_str(), O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC));
  struct stat about {};
  if (!fd.valid() || ::fstat(fd.get(), &about) != 0)
    return invalid("no such file, or not readable");
  if (!S_ISREG(about.st_mode))
    return invalid(S_ISDIR(about.st_mode) ? "is a directory" : "is no regular file");
  return RegularFile(std::move(fd), about);
}

std::string RegularFile::read(uint64_t offset, size_t size) const {
  std::string bytes(offset < this->size() ? std::min<uint64_t>(size, this->size() - offset) : 0,
                    '\0');
  size_t have = 0;
  while (have < bytes.size()) {
    const ssize_t n = ::pread(fd_.get(), bytes.data() + have, bytes.size() - have,
                              static_cast<off_t>(offset + have));
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) break;
    have += static_cast<size_t>(n);
  }
  bytes.resize(have);
  return bytes;
}

}  // namespace sluice::control
