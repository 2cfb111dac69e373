#include "cli/run_folder.h"

#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <system_error>

#include "base/system_error.h"

namespace sluice::cli {
namespace {

namespace fs = std::filesystem;

constexpr char kInMemory[] = "/run/sluice";

// One of its own for each data directory, by whatever path that is reached. Empty where there can
// be none.
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

}  // namespace

// A link elsewhere is a copied data directory's: the other one may be in use.
Result<void> make_run_folder(const std::string& data) {
  const fs::path run = fs::path(data) / "run";
  std::error_code fault;
  const fs::file_type found = fs::symlink_status(run, fault).type();
  if (found == fs::file_type::not_found || found == fs::file_type::symlink) {
    const fs::path place = place_in_memory(data);
    if (!place.empty() && fs::read_symlink(run, fault) != place) {
      fs::remove(run, fault);
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
