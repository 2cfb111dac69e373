#include "cli/run_folder.h"

#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <system_error>
#include <vector>

#include "base/lock_file.h"
#include "base/system_error.h"

namespace sluice::cli {
namespace {

namespace fs = std::filesystem;

constexpr char kInMemory[] = "/run/sluice";

// Returns a place of its own for each data directory, whatever its path. Empty if there can be
// none.
fs::path place_in_memory(const std::string& data) {
  struct stat s {};
  if (::geteuid() != 0 || ::stat(data.c_str(), &s) != 0) return {};
  fs::path place =
      fs::path(kInMemory) / (std::to_string(s.st_dev) + "-" + std::to_string(s.st_ino));
  std::error_code fault;
  fs::create_directories(place, fault);
  if (fault) return {};
  ::chmod(kInMemory, 0711);
  return place;
}

// Removes the remains of a deleted data directory whose inode a new one has.
void empty(const fs::path& place) {
  std::error_code fault;
  std::vector<fs::path> left;
  for (const fs::directory_entry& entry : fs::directory_iterator(place, fault)) {
    const bool lock = entry.path().extension() == ".lock";
    if (lock && lock_holder(entry.path()).value_or(1) != 0) return;  // in use
    left.push_back(entry.path());
  }
  for (const fs::path& path : left) fs::remove_all(path, fault);
}

}  // namespace

// A link elsewhere belongs to a copied data directory: the other one may be in use.
Result<void> make_run_folder(const std::string& data) {
  const fs::path run = fs::path(data) / "run";
  std::error_code fault;
  const fs::file_type found = fs::symlink_status(run, fault).type();
  if (found == fs::file_type::not_found || found == fs::file_type::symlink) {
    const fs::path place = place_in_memory(data);
    if (!place.empty() && fs::read_symlink(run, fault) != place) {
      fs::remove(run, fault);
      empty(place);
      fs::create_directory_symlink(place, run, fault);
      if (fault) return system_error(run, fault.value());
    }
  }
  fs::create_directories(run, fault);
  if (fault) return system_error(run, fault.value());
  ::chmod(run.c_str(), 0711);
  return {};
}

}  // namespace sluice::cli
