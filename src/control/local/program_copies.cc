#include "control/local/program_copies.h"

#include <fcntl.h>
#include <unistd.h>

#include <filesystem>
#include <set>

#include "base/copy_file.h"
#include "base/fd.h"
#include "base/log.h"
#include "base/system_error.h"

namespace sluice::control {
namespace {

namespace fs = std::filesystem;

constexpr size_t kContentDigits = 64;

// The links to volumes are made last: nothing is read through them.
Result<void> link_volumes(const ProgramSpec& program, const fs::path& folder) {
  std::error_code fault;
  for (const fs::path volume : program.volumes) {
    fs::create_symlink(volume, folder / volume.filename(), fault);
    if (fault) return system_error(folder / volume.filename(), fault.value());
  }
  return {};
}

Result<void> copy_to(const std::vector<WorkingFile>& files, const fs::path& folder,
                     const std::atomic<bool>& stopped) {
  std::error_code fault;
  fs::create_directories(folder, fault);
  for (const WorkingFile& f : files) {
    const fs::path to = folder / f.name();
    if (fs::create_directories(to.parent_path(), fault); fault)
      return system_error(to, fault.value());
    SLUICE_ASSIGN(file, f.open());
    SLUICE_TRY(copy_file(file, to, is_runnable(file) ? 0555 : 0444, stopped));
  }
  fs::permissions(folder, fs::perms(0755), fault);
  for (fs::recursive_directory_iterator at(folder, fault), end; !fault && at != end;
       at.increment(fault))
    if (at->is_directory(fault)) fs::permissions(at->path(), fs::perms(0755), fault);
  if (fault) return system_error(folder, fault.value());
  const Fd fd(::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!fd.valid() || ::syncfs(fd.get()) != 0) return system_error(folder);
  return {};
}

// Returns kConflict if the copy is not what was named.
Result<void> check_copy(const ProgramSpec& program, const std::string& copy,
                        const std::string& content, const std::atomic<bool>& stopped) {
  SLUICE_ASSIGN(files, files_in(copy));
  SLUICE_ASSIGN(copied, content_of(program, files, stopped));
  if (copied == content) return {};
  return Error{ErrorKind::kConflict,
               "server.files changed while they were copied. Apply again once they are completely "
               "written."};
}

// Returns the working folders of this machine's processes, as far as they may be seen.
std::set<fs::path> folders_at_work() {
  std::set<fs::path> folders;
  std::error_code fault;
  for (fs::directory_iterator at("/proc", fault), end; !fault && at != end; at.increment(fault)) {
    std::error_code gone;
    const fs::path folder = fs::read_symlink(at->path() / "cwd", gone);
    if (!gone) folders.insert(folder);
  }
  return folders;
}

}  // namespace

// Two processes make copies at once: the platform, and `sluice profile`.
std::string ProgramCopies::next_name(const char* ending) {
  return folder_ + "/" + std::to_string(getpid()) + "-" + std::to_string(next_++) + ending;
}

Result<void> ProgramCopies::keep(const ProgramSpec& program, const std::vector<WorkingFile>& files,
                                 const std::string& content, const std::atomic<bool>& stopped) {
  const std::string to = path_of(content);
  if ((files.empty() && program.volumes.empty()) || fs::exists(to)) return {};
  std::error_code fault;
  if (fs::create_directories(folder_, fault)) fs::permissions(folder_, fs::perms(0711), fault);
  if (fault) return system_error(folder_, fault.value());
  const std::string aside = next_name(".new");
  Result<void> kept = copy_to(files, aside, stopped);
  if (kept.ok()) kept = check_copy(program, aside, content, stopped);
  if (kept.ok()) kept = link_volumes(program, aside);
  // Another thread may have made the same one.
  if (kept.ok() && ::rename(aside.c_str(), to.c_str()) != 0 && !fs::exists(to))
    kept = system_error(to);
  fs::remove_all(aside, fault);
  return kept;
}

void ProgramCopies::sweep(const TakeAway& take_away) {
  const std::set<fs::path> at_work = folders_at_work();
  const std::string ours = std::to_string(getpid()) + "-";
  std::error_code fault;
  std::vector<fs::path> entries;
  for (fs::directory_iterator at(folder_, fault), end; !fault && at != end; at.increment(fault))
    entries.push_back(at->path());
  for (const fs::path& entry : entries) {
    const std::string name = entry.filename();
    const bool is_half = name.ends_with(".new") || name.ends_with(".old");
    std::string gone;
    if (is_half && !name.starts_with(ours)) gone = entry;
    if (name.size() == kContentDigits && !at_work.contains(entry)) {
      const std::string to = next_name(".old");
      if (take_away(name, to)) gone = to;
    }
    if (gone.empty()) continue;
    fs::remove_all(gone, fault);
    if (!is_half) log::info("{}: no revision uses it any more", entry.string());
  }
}

}  // namespace sluice::control
