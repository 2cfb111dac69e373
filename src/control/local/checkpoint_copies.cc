#include "control/local/checkpoint_copies.h"

#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>

#include "base/log.h"
#include "base/regular_file.h"
#include "base/replace_file.h"
#include "base/secret.h"
#include "base/system_error.h"
#include "train/checkpoints.h"

namespace sluice::control {
namespace {

namespace fs = std::filesystem;

constexpr const char* kAside = ".other-";
constexpr size_t kLongestText = 1 << 20;

void drop_copy(const std::string& path) {
  std::error_code fault;
  fs::remove_all(path, fault);
  if (fault) log::warn("{}: {}", path, fault.message());
}

// Returns the file's text; empty if there is none.
Result<std::string> text_in(const std::string& path) {
  struct stat about {};
  if (::lstat(path.c_str(), &about) != 0) {
    if (errno == ENOENT) return std::string();
    return system_error(path);
  }
  SLUICE_ASSIGN(file, RegularFile::open(path));
  return file.text(kLongestText);
}

}  // namespace

Result<void> CheckpointCopies::check(const std::string& folder) {
  struct stat about {};
  const auto refused = [&](const char* why) {
    return Error{ErrorKind::kInvalid,
                 "--checkpoints: '" + folder + "': " + why +
                     "; give a folder of the user that runs the platform, which no other user may "
                     "write to"};
  };
  if (!folder.starts_with('/')) return refused("is not an absolute path");
  if (::stat(folder.c_str(), &about) != 0) return system_error("--checkpoints: " + folder);
  if (!S_ISDIR(about.st_mode)) return refused("is no folder");
  if (about.st_uid != geteuid()) return refused("is another user's");
  if ((about.st_mode & (S_IWGRP | S_IWOTH)) != 0) return refused("others may write to it");
  return {};
}

Result<CheckpointCopies> CheckpointCopies::in(const std::string& folder, const std::string& data) {
  SLUICE_TRY(check(folder));
  const std::string mark = folder + "/platform", known = data + "/checkpoints.mark";
  SLUICE_ASSIGN(there, text_in(mark));
  SLUICE_ASSIGN(own, text_in(known));
  if (!own.empty() && there != own)
    return Error{ErrorKind::kConflict, "--checkpoints: '" + folder +
                                           "' is not the folder that this platform has used: is "
                                           "it mounted? For another folder, remove " +
                                           known};
  if (there.empty()) {
    there = make_secret() + "\n";
    SLUICE_TRY(replace_file(mark, there, 0600, Flush::kYes));
  }
  if (own.empty()) SLUICE_TRY(replace_file(known, there, 0600, Flush::kYes));
  CheckpointCopies copies;
  copies.folder_ = folder;
  return copies;
}

// Returns whether there are copies of that job.
Result<bool> CheckpointCopies::has(const CopiedJob& job) const {
  SLUICE_ASSIGN(of, text_in(path_of(job) + "/job"));
  return of == job.of;
}

// The folder is this job's afterwards.
Result<void> CheckpointCopies::make_room_for(const CopiedJob& job) const {
  SLUICE_ASSIGN(is_there, has(job));
  if (is_there) return {};
  const std::string path = path_of(job);
  std::error_code fault;
  for (int n = 1; fs::exists(path, fault); ++n)
    if (const std::string aside = path + kAside + std::to_string(n); !fs::exists(aside, fault))
      if (::rename(path.c_str(), aside.c_str()) != 0) return within(path, system_error("rename"));
  fs::create_directories(path, fault);
  if (fault) return system_error(path, fault.value());
  if (::chmod(path.c_str(), 0700) != 0) return system_error(path);
  return replace_file(path + "/job", job.of, 0600, Flush::kYes);
}

Result<void> CheckpointCopies::keep(const CopiedJob& job, int kept,
                                    const std::atomic<bool>& stopped) const {
  const auto all = train::checkpoints_in(job.work);
  if (all.empty()) return {};
  SLUICE_TRY(make_room_for(job));
  if (!steps(job).contains(all.back().at.step)) {
    const auto copy = train::copy_checkpoint(all.back().path, path_of(job), path_of(job), stopped);
    if (!copy.ok()) return copy.error();
  }
  train::forget_checkpoints(path_of(job), kept);
  return {};
}

Result<void> CheckpointCopies::bring_back(const CopiedJob& job, std::string& trouble,
                                          const std::atomic<bool>& stopped) const {
  SLUICE_ASSIGN(is_there, has(job));
  if (!is_there) return {};
  const auto own = train::checkpoints_in(job.work);
  const int64_t newest = own.empty() ? -1 : own.back().at.step;
  for (const train::Checkpoint& c : train::checkpoints_in(path_of(job))) {
    if (c.at.step <= newest) continue;
    const auto copy = train::copy_checkpoint(c.path, job.work, job.home, stopped);
    if (!copy.ok()) trouble = copy.error().message;
  }
  return {};
}

std::set<int64_t> CheckpointCopies::steps(const CopiedJob& job) const {
  std::set<int64_t> all;
  if (!on()) return all;
  if (const auto is_there = has(job); !is_there.ok() || !*is_there) return all;
  for (const train::Checkpoint& c : train::checkpoints_in(path_of(job))) all.insert(c.at.step);
  return all;
}

Result<void> CheckpointCopies::forget_after(const CopiedJob& job, int64_t step) const {
  SLUICE_ASSIGN(is_there, has(job));
  if (!is_there) return {};
  for (const train::Checkpoint& c : train::checkpoints_in(path_of(job))) {
    std::error_code fault;
    if (c.at.step > step) fs::remove_all(c.path, fault);
    if (fault) return system_error(c.path, fault.value());
  }
  return {};
}

void CheckpointCopies::forget(const FunctionName& f) const {
  std::error_code fault;
  const std::string prefix = f.name + "@";
  std::vector<std::string> paths;
  for (fs::directory_iterator at(folder_ + "/" + f.space, fault), end; !fault && at != end;
       at.increment(fault))
    if (const std::string name = at->path().filename();
        name.starts_with(prefix) && name.find(kAside) == name.npos)
      paths.push_back(at->path());
  for (const std::string& path : paths) drop_copy(path);
}

}  // namespace sluice::control
