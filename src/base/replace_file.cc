#include "base/replace_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>

#include "base/fd.h"
#include "base/system_error.h"

namespace sluice {
namespace {

bool write_all(int fd, std::string_view text) {
  while (!text.empty()) {
    const ssize_t n = ::write(fd, text.data(), text.size());
    if (n < 0 && errno != EINTR) return false;
    if (n > 0) text.remove_prefix(static_cast<size_t>(n));
  }
  return true;
}

}  // namespace

Result<void> replace_file(const std::string& path, std::string_view text, mode_t mode) {
  const std::string aside = path + ".new";
  ::unlink(aside.c_str());  // what a dead writer left may have another mode
  const Fd fd(::open(aside.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, mode));
  if (!fd.valid()) return system_error(path);
  if (!write_all(fd.get(), text) || ::rename(aside.c_str(), path.c_str()) != 0) {
    const Error fault = system_error(path);
    ::unlink(aside.c_str());
    return fault;
  }
  return {};
}

}  // namespace sluice
