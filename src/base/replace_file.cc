#include "base/replace_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdio>

#include "base/fd.h"
#include "base/system_error.h"
#include "base/write_all.h"

namespace sluice {
namespace {

// A new name is on the disk when its folder is.
bool flush_folder_of(const std::string& path) {
  const size_t slash = path.rfind('/');
  const std::string folder = slash == std::string::npos ? "." : path.substr(0, slash + 1);
  const Fd fd(::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  return fd.valid() && ::fsync(fd.get()) == 0;
}

// A rename onto a file makes ext4 write the new data out, which takes milliseconds, and tens of
// them while its disk is busy. An exchange of two names does not. The disk may then have the new
// name before the data: that is for files that need not survive the machine's death.
bool exchange(const std::string& aside, const std::string& path) {
  struct stat earlier {};
  if (::lstat(path.c_str(), &earlier) != 0 || !S_ISREG(earlier.st_mode) ||
      ::renameat2(AT_FDCWD, aside.c_str(), AT_FDCWD, path.c_str(), RENAME_EXCHANGE) != 0)
    return false;
  ::unlink(aside.c_str());
  return true;
}

bool put_in_place(const std::string& aside, const std::string& path, Flush flush) {
  if (flush == Flush::kNo && exchange(aside, path)) return true;
  return ::rename(aside.c_str(), path.c_str()) == 0;
}

}  // namespace

Result<void> replace_file(const std::string& path, std::string_view text, mode_t mode,
                          Flush flush) {
  const std::string aside = path + ".new";
  ::unlink(aside.c_str());  // a dead writer's file may have another mode
  const Fd fd(::open(aside.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, mode));
  if (!fd.valid()) return system_error(path);
  if (!write_all(fd.get(), text) || (flush == Flush::kYes && ::fdatasync(fd.get()) != 0) ||
      !put_in_place(aside, path, flush)) {
    const Error fault = system_error(path);
    ::unlink(aside.c_str());
    return fault;
  }
  if (flush == Flush::kYes && !flush_folder_of(path)) return system_error(path);
  return {};
}

}  // namespace sluice
