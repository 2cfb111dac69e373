#include "base/read_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <system_error>

#include "base/fd.h"

namespace sluice {
namespace {

Error cannot_read(const std::string& path) {
  return {errno == ENOENT ? ErrorKind::kNotFound : ErrorKind::kUnavailable,
          path + ": cannot be read: " + std::generic_category().message(errno)};
}

}  // namespace

Result<std::string> read_file(const std::string& path) {
  const Fd fd(open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!fd.valid()) return cannot_read(path);
  std::string text;
  std::array<char, 64 * 1024> part;
  for (;;) {
    const ssize_t size = read(fd.get(), part.data(), part.size());
    if (size == 0) return text;
    if (size > 0)
      text.append(part.data(), static_cast<size_t>(size));
    else if (errno != EINTR)
      return cannot_read(path);
  }
}

}  // namespace sluice
