#include "cli/programs.h"

#include <sys/stat.h>
#include <unistd.h>

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

}  // namespace

Result<void> provide_programs(const std::string& data) {
  const fs::path from = beside_us(), to = copies(data), aside = data + "/programs.new",
                 old = data + "/programs.old";
  std::error_code fault;
  const bool needed = geteuid() == 0 && !readable_by_all(from / "sluice");
  fs::remove_all(aside, fault);
  if (needed && !fault) fs::create_directory(aside, fault);
  for (const char* name : kPrograms)
    if (needed && !fault && fs::exists(from / name))
      fs::copy(from / name, aside / name,
               fs::copy_options::recursive | fs::copy_options::copy_symlinks, fault);
  if (needed && !fault) fs::permissions(aside, fs::perms(0755), fault);
  if (!fault && fs::exists(to)) fs::rename(to, old, fault);
  if (needed && !fault) fs::rename(aside, to, fault);
  fs::remove_all(old);
  if (fault) return system_error(to, fault.value());
  return {};
}

fs::path folder_of_programs(const std::string& data) {
  return fs::exists(copies(data)) ? copies(data) : beside_us();
}

}  // namespace sluice::cli
