#include "control/local/model_folder.h"

#include <algorithm>
#include <charconv>
#include <filesystem>

#include "base/untrusted_folder.h"
#include "control/spec/triton_config.h"

namespace sluice::control {
namespace {

namespace fs = std::filesystem;

constexpr size_t kLargestConfig = 1 << 20, kMostVersions = 10'000;
constexpr char kConfig[] = "config.pbtxt";

Error unusable(const std::string& path, const std::string& why) {
  return {ErrorKind::kInvalid, path + ": " + why};
}

Result<TritonConfig> read_config(const UntrustedFolder& folder) {
  const std::string path = folder.path() + "/" + kConfig;
  const auto file = folder.file(kConfig);
  if (!file.ok())
    return unusable(folder.path(), "is a folder, and " + file.error().message +
                                       ". A model's folder has Triton's config.pbtxt and "
                                       "VERSION/model.pt");
  if (file->size() > kLargestConfig)
    return unusable(path, "has more than " + std::to_string(kLargestConfig) + " bytes");
  auto config = triton_config(file->read(0, kLargestConfig));
  if (!config.ok()) return within(path, config.error());
  return config;
}

// Versions are folders named by numbers from 1 up.
int64_t version_of(const std::string& name) {
  int64_t n = 0;
  const auto [end, fault] = std::from_chars(name.data(), name.data() + name.size(), n);
  return fault == std::errc() && end == name.data() + name.size() && n > 0 ? n : 0;
}

Result<std::string> newest_file(const UntrustedFolder& folder, const TritonConfig& config) {
  std::vector<std::pair<int64_t, std::string>> versions;
  for (const std::string& name : folder.names("", kMostVersions)) {
    const int64_t n = version_of(name);
    const bool served =
        config.versions.empty() || std::ranges::find(config.versions, n) != config.versions.end();
    if (n > 0 && served) versions.emplace_back(n, name);
  }
  if (versions.empty())
    return unusable(folder.path(), "has no version that is served, such as 1/" + config.file);
  const std::string& newest = std::ranges::max(versions).second;
  SLUICE_ASSIGN(inner, folder.folder(newest));
  SLUICE_TRY(inner.file(config.file));
  return folder.path() + "/" + newest + "/" + config.file;
}

}  // namespace

Result<void> resolve_folder(ModelSpec& model) {
  std::error_code fault;
  if (!fs::is_directory(model.path, fault)) return {};
  fs::path path(model.path);
  if (path.filename().empty()) path = path.parent_path();
  SLUICE_ASSIGN(folder, UntrustedFolder::open(path));
  SLUICE_ASSIGN(config, read_config(folder));
  SLUICE_ASSIGN(file, newest_file(folder, config));
  model.path = file;
  if (model.inputs.empty()) {
    model.inputs = config.inputs;
    model.outputs = config.outputs;
  }
  if (model.max_batch == 0) model.max_batch = std::max(config.max_batch, 1);
  return {};
}

}  // namespace sluice::control
