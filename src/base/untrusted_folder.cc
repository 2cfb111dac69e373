#include "base/untrusted_folder.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <functional>
#include <memory>

#include "base/system_error.h"

namespace sluice {
namespace {

constexpr int kDeepest = 64;

// Calls `take` for each entry until it returns false.
void for_each_name(int folder, const std::function<bool(std::string_view)>& take) {
  // A description of its own, whose position is not shared.
  const int own = ::openat(folder, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  const std::unique_ptr<DIR, int (*)(DIR*)> entries(own < 0 ? nullptr : fdopendir(own), closedir);
  if (entries == nullptr) {
    if (own >= 0) ::close(own);
    return;
  }
  while (const dirent* entry = readdir(entries.get())) {  // NOLINT(concurrency-mt-unsafe)
    const std::string_view name(entry->d_name);
    if (name != "." && name != ".." && !take(name)) return;
  }
}

// The owner is asked of the entry that is then given, and not of its name: a name may stand for
// another user's file by then.
Result<void> give_entry(int folder, const std::string& name, const std::string& path, uid_t from,
                        uid_t to, int depth) {
  const Fd entry(::openat(folder, name.c_str(), O_PATH | O_NOFOLLOW | O_CLOEXEC));
  struct stat about {};
  if (!entry.valid() || ::fstat(entry.get(), &about) != 0) return {};  // it is gone
  if (about.st_uid != from && about.st_uid != to)
    return Error{ErrorKind::kInvalid, path + ": belongs to user " + std::to_string(about.st_uid)};
  if (depth >= kDeepest)
    return Error{ErrorKind::kInvalid,
                 path + ": is more than " + std::to_string(kDeepest) + " folders deep"};
  if (about.st_uid == from && ::fchownat(entry.get(), "", to, to, AT_EMPTY_PATH) != 0)
    return system_error(path);
  if (!S_ISDIR(about.st_mode)) return {};
  const Fd inner(::openat(folder, name.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
  Result<void> outcome;
  for_each_name(inner.get(), [&](std::string_view n) {
    const auto given =
        give_entry(inner.get(), std::string(n), path + "/" + std::string(n), from, to, depth + 1);
    if (!given.ok()) outcome = given.error();
    return true;
  });
  return outcome;
}

}  // namespace

Result<UntrustedFolder> UntrustedFolder::open_at(int folder, const std::string& name,
                                                 std::string path) {
  Fd fd(
      ::openat(folder, name.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC));
  if (fd.valid()) return UntrustedFolder(std::move(fd), std::move(path));
  if (errno == ENOENT) return Error{ErrorKind::kNotFound, path + ": there is no such folder"};
  if (errno == ELOOP || errno == ENOTDIR)
    return Error{ErrorKind::kInvalid, path + ": is no folder"};
  return system_error(path);
}

Result<UntrustedFolder> UntrustedFolder::open(const std::string& path) {
  return open_at(AT_FDCWD, path, path);
}

Result<UntrustedFolder> UntrustedFolder::folder(const std::string& name) const {
  return open_at(fd_.get(), name, path_ + "/" + name);
}

Result<RegularFile> UntrustedFolder::file(const std::string& name) const {
  return RegularFile::open_at(fd_.get(), name, path_ + "/" + name);
}

std::vector<std::string> UntrustedFolder::names(std::string_view prefix, size_t most) const {
  std::vector<std::string> all;
  for_each_name(fd_.get(), [&](std::string_view name) {
    if (name.starts_with(prefix)) all.emplace_back(name);
    return all.size() < most;
  });
  return all;
}

uid_t UntrustedFolder::owner() const {
  struct stat about {};
  return ::fstat(fd_.get(), &about) == 0 ? about.st_uid : 0;
}

Result<void> UntrustedFolder::give(uid_t from, uid_t to) const {
  return give_entry(fd_.get(), ".", path_, from, to, 0);
}

}  // namespace sluice
