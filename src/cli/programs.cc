#include "cli/programs.h"

#include <sys/stat.h>
#include <unistd.h>

#include "base/copy_file.h"
#include "base/readable.h"
#include "base/system_error.h"

namespace sluice::cli {
namespace {

namespace fs = std::filesystem;

constexpr const char* kPrograms[] = {
    "sluice-trainer", "libsluice_gate.so", "libsluice_cuda.so", "libsluice_nvml.so", "driver",
    "python"};

fs::path beside_us() {
  return fs::read_symlink("/proc/self/exe").parent_path();
}

fs::path copies(const std::string& data) {
  return fs::path(data) / "programs";
}

// Copies a program, or a folder with all in it.
Result<void> copy_all(const fs::path& from, const fs::path& to) {
  std::error_code fault;
  const fs::file_status what = fs::symlink_status(from, fault);
  if (fs::is_symlink(what)) {
    fs::copy_symlink(from, to, fault);
  } else if (fs::is_directory(what)) {
    if (fs::create_directory(to, fault)) fs::permissions(to, fs::perms(0755), fault);
    for (fs::directory_iterator at(from, fault), end; !fault && at != end; at.increment(fault))
      SLUICE_TRY(copy_all(at->path(), to / at->path().filename()));
  } else {
    SLUICE_ASSIGN(file, RegularFile::open(from));
    return copy_file(file, to, 0644 | (file.about().st_mode & 0111));
  }
  if (fault) return system_error(to, fault.value());
  return {};
}

Result<void> copy_programs(const fs::path& from, const fs::path& to) {
  std::error_code fault;
  if (fs::create_directory(to, fault)) fs::permissions(to, fs::perms(0755), fault);
  if (fault) return system_error(to, fault.value());
  for (const char* name : kPrograms)
    if (fs::exists(from / name, fault)) SLUICE_TRY(copy_all(from / name, to / name));
  return {};
}

}  // namespace

Result<void> provide_programs(const std::string& data) {
  const fs::path from = beside_us(), to = copies(data), aside = data + "/programs.new",
                 old = data + "/programs.old";
  std::error_code fault;
  const bool needed = geteuid() == 0 && !readable_by_all(from / "sluice");
  fs::remove_all(aside, fault);
  if (needed) {
    if (auto copied = copy_programs(from, aside); !copied.ok()) {
      fs::remove_all(aside, fault);
      return copied;
    }
  }
  fault.clear();
  if (fs::exists(to)) fs::rename(to, old, fault);
  if (needed && !fault) fs::rename(aside, to, fault);
  if (fault) return system_error(to, fault.value());
  fs::remove_all(old, fault);
  return {};
}

Result<void> provide_missing_programs(const std::string& data) {
  std::error_code fault;
  if (fs::exists(copies(data), fault)) return {};
  if (fs::create_directories(data, fault); fault) return system_error(data, fault.value());
  return provide_programs(data);
}

fs::path folder_of_programs(const std::string& data) {
  return fs::exists(copies(data)) ? copies(data) : beside_us();
}

}  // namespace sluice::cli
