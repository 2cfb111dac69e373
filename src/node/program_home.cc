#include "node/program_home.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <limits>

#include "base/system_error.h"
#include "base/untrusted_folder.h"

namespace sluice::node {
namespace {

constexpr const char* kForEveryone[] = {"/tmp", "/var/tmp", "/dev/shm", "/dev/mqueue", "/run/lock"};
constexpr size_t kAll = std::numeric_limits<size_t>::max();
constexpr char kWork[] = "work";

Result<UntrustedFolder> open_home(const std::string& home) {
  SLUICE_ASSIGN(folder, UntrustedFolder::open(home));
  struct stat about {};
  if (::fstat(folder.fd(), &about) != 0) return system_error(home);
  if (about.st_uid != geteuid() || (about.st_mode & (S_IWGRP | S_IWOTH)) != 0)
    return Error{ErrorKind::kInvalid, "program.home: " + home +
                                          ": must be a folder of the daemon's user that no other "
                                          "can write to"};
  return std::move(folder);
}

}  // namespace

Result<uid_t> owner_of_home(const std::string& home) {
  SLUICE_ASSIGN(folder, open_home(home));
  const auto work = folder.folder(kWork);
  if (!work.ok() && work.error().kind == ErrorKind::kNotFound) return uid_t{0};
  if (!work.ok()) return work.error();
  return work->owner();
}

Result<void> give_home(const std::string& home, uid_t uid) {
  SLUICE_ASSIGN(folder, open_home(home));
  if (::mkdirat(folder.fd(), kWork, 0700) != 0 && errno != EEXIST)
    return system_error(home + "/" + kWork);
  SLUICE_ASSIGN(work, folder.folder(kWork));
  if (work.owner() == 0) {
    if (::fchown(work.fd(), uid, uid) != 0) return system_error(work.path());
  } else {
    SLUICE_TRY(work.give(work.owner(), uid));
  }
  if (::fchmod(work.fd(), 0700) != 0 || ::fchown(folder.fd(), static_cast<uid_t>(-1), uid) != 0 ||
      ::fchmod(folder.fd(), 0750) != 0)
    return system_error(home);
  return {};
}

std::set<uid_t> owners_of_homes(const std::string& homes) {
  std::set<uid_t> owners;
  const auto all = UntrustedFolder::open(homes);
  for (const std::string& space : all.ok() ? all->names("", kAll) : std::vector<std::string>()) {
    const auto inner = all->folder(space);
    if (!inner.ok()) continue;
    for (const std::string& name : inner->names("", kAll))
      if (const auto home = inner->folder(name); home.ok())
        if (const auto work = home->folder(kWork); work.ok()) owners.insert(work->owner());
  }
  owners.erase(0);
  return owners;
}

std::set<uid_t> owners_of_files(const std::string& homes) {
  std::set<uid_t> owners = owners_of_homes(homes);
  for (const char* path : kForEveryone) {
    const auto folder = UntrustedFolder::open(path);
    if (!folder.ok()) continue;
    for (const std::string& name : folder->names("", kAll)) {
      struct stat about {};
      if (::fstatat(folder->fd(), name.c_str(), &about, AT_SYMLINK_NOFOLLOW) == 0)
        owners.insert(about.st_uid);
    }
  }
  return owners;
}

}  // namespace sluice::node
