#include "base/copy_file.h"

#include <fcntl.h>
#include <linux/fs.h>
#include <sys/ioctl.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>

#include "base/system_error.h"
#include "base/write_all.h"

namespace sluice {
namespace {

constexpr size_t kPiece = 1 << 20;

// A file with holes is as long as its owner likes at no cost; its copy is not.
bool has_space(const Fd& to, uint64_t bytes) {
  struct statvfs disk {};
  if (::fstatvfs(to.get(), &disk) != 0) return true;
  const uint64_t free = static_cast<uint64_t>(disk.f_bavail) * disk.f_frsize;
  return bytes <= free - free / 10;
}

Result<void> fill(const RegularFile& from, const Fd& to, const std::string& path,
                  const std::atomic<bool>& stopped) {
  if (::ioctl(to.get(), FICLONE, from.fd()) == 0) return {};
  if (!has_space(to, from.size())) return system_error(path, ENOSPC);
  for (uint64_t at = 0; at < from.size(); at += kPiece) {
    if (stopped) return Error{ErrorKind::kUnavailable, "the platform is shutting down"};
    const std::string piece = from.read(at, kPiece);
    if (piece.size() < std::min<uint64_t>(kPiece, from.size() - at))
      return Error{ErrorKind::kConflict, path + ": what it copies became shorter meanwhile"};
    if (!write_all(to.get(), piece)) return system_error(path);
  }
  return {};
}

}  // namespace

Result<void> copy_file(const RegularFile& from, const std::string& to, mode_t mode,
                       const std::atomic<bool>& stopped) {
  const std::string aside = to + ".new";
  ::unlink(aside.c_str());
  const Fd fd(::open(aside.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600));
  if (!fd.valid()) return system_error(to);
  Result<void> outcome = fill(from, fd, to, stopped);
  if (outcome.ok() && (::fchmod(fd.get(), mode) != 0 || ::fsync(fd.get()) != 0 ||
                       ::rename(aside.c_str(), to.c_str()) != 0))
    outcome = system_error(to);
  if (!outcome.ok()) ::unlink(aside.c_str());
  return outcome;
}

bool disk_is_full(const std::string& folder) {
  struct statvfs disk {};
  return ::statvfs(folder.c_str(), &disk) == 0 &&
         static_cast<uint64_t>(disk.f_bavail) * disk.f_frsize < (1 << 20);
}

Result<void> copy_file(const RegularFile& from, const std::string& to, mode_t mode) {
  const std::atomic<bool> never = false;
  return copy_file(from, to, mode, never);
}

}  // namespace sluice
