#include "base/regular_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

namespace sluice {
namespace {

// Non-blocking: otherwise the open of a FIFO waits for a writer.
constexpr int kHow = O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC;

Error invalid(const std::string& shown, const std::string& why) {
  return {ErrorKind::kInvalid, shown + ": " + why};
}

// Returns why it is none; nullptr: it is.
const char* fault_of(const Fd& fd, struct stat& about) {
  if (!fd.valid() && errno == ELOOP) return "is a link";
  if (!fd.valid() || ::fstat(fd.get(), &about) != 0) return "no such file, or not readable";
  if (S_ISREG(about.st_mode)) return nullptr;
  return S_ISDIR(about.st_mode) ? "is a directory" : "is no regular file";
}

}  // namespace

Result<RegularFile> RegularFile::open(const std::string& path) {
  return of(Fd(::open(path.c_str(), kHow)), path);
}

Result<RegularFile> RegularFile::open_at(int folder, const std::string& name,
                                         const std::string& shown) {
  return of(Fd(::openat(folder, name.c_str(), kHow | O_NOFOLLOW)), shown);
}

Result<RegularFile> RegularFile::of(Fd fd, const std::string& shown) {
  struct stat about {};
  if (const char* fault = fault_of(fd, about)) return invalid(shown, fault);
  return RegularFile(std::move(fd), about, shown);
}

std::string RegularFile::read(uint64_t offset, size_t size) const {
  std::string bytes(offset < this->size() ? std::min<uint64_t>(size, this->size() - offset) : 0,
                    '\0');
  bytes.resize(read(offset, bytes.data(), bytes.size()));
  return bytes;
}

size_t RegularFile::read(uint64_t offset, void* to, size_t size) const {
  size_t have = 0;
  while (have < size) {
    const ssize_t n = ::pread(fd_.get(), static_cast<char*>(to) + have, size - have,
                              static_cast<off_t>(offset + have));
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) break;
    have += static_cast<size_t>(n);
  }
  return have;
}

Result<std::string> RegularFile::text(size_t most) const {
  if (size() > most)
    return invalid(shown_, "has " + std::to_string(size()) + " bytes; at most " +
                               std::to_string(most) + " are allowed");
  return read(0, most);
}

}  // namespace sluice
