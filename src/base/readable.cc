#include "base/readable.h"

namespace sluice {

bool readable_by_all(const std::filesystem::path& path) {
  namespace fs = std::filesystem;
  std::error_code fault;
  const fs::path whole = fs::canonical(path, fault);
  if (fault) return false;
  const auto may = [](const fs::path& p, fs::perms bit) {
    std::error_code unknown;
    return (fs::status(p, unknown).permissions() & bit) == bit && !unknown;
  };
  if (!may(whole, fs::perms::others_read)) return false;
  for (fs::path folder = whole.parent_path();; folder = folder.parent_path()) {
    if (!may(folder, fs::perms::others_exec)) return false;
    if (folder == folder.parent_path()) return true;
  }
}

}  // namespace sluice
