#include "base/readable.h"

namespace sluice {
namespace {

namespace fs = std::filesystem;

bool may_all(const fs::path& path, fs::perms bits) {
  std::error_code fault;
  const fs::path whole = fs::canonical(path, fault);
  if (fault) return false;
  const auto may = [](const fs::path& p, fs::perms wanted) {
    std::error_code unknown;
    return (fs::status(p, unknown).permissions() & wanted) == wanted && !unknown;
  };
  if (!may(whole, bits)) return false;
  for (fs::path folder = whole.parent_path();; folder = folder.parent_path()) {
    if (!may(folder, fs::perms::others_exec)) return false;
    if (folder == folder.parent_path()) return true;
  }
}

}  // namespace

bool readable_by_all(const fs::path& path) {
  return may_all(path, fs::perms::others_read);
}

bool enterable_by_all(const fs::path& folder) {
  return may_all(folder, fs::perms::others_exec);
}

bool runnable_by_all(const fs::path& path) {
  std::error_code fault;
  const bool folder = fs::is_directory(path, fault);
  return may_all(path,
                 folder ? fs::perms::others_exec | fs::perms::others_read : fs::perms::others_exec);
}

}  // namespace sluice
