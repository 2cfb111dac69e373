#include "cli/files.h"

#include <algorithm>
#include <filesystem>

#include "base/system_error.h"
#include "cli/session.h"

namespace sluice::cli {
namespace {

// Returns whether a model lies beside the file, which then describes that model's inputs and
// outputs.
bool is_sidecar(const std::filesystem::path& file) {
  std::error_code fault;
  return file.extension() == ".json" &&
         (std::filesystem::exists(std::filesystem::path(file).replace_extension(".pt"), fault) ||
          std::filesystem::exists(std::filesystem::path(file).replace_extension(".onnx"), fault));
}

// A folder stands for the function files in it, by name.
Result<std::vector<std::string>> with_folders_opened(const std::vector<std::string>& named) {
  namespace fs = std::filesystem;
  std::vector<std::string> files;
  for (const std::string& name : named) {
    std::error_code fault;
    if (!fs::is_directory(name, fault)) {
      files.push_back(name);
      continue;
    }
    std::vector<std::string> inside;
    for (fs::directory_iterator at(name, fault), end; !fault && at != end; at.increment(fault)) {
      const std::string kind = at->path().extension();
      const bool read = kind == ".yaml" || kind == ".yml" || kind == ".json";
      if (read && !is_sidecar(at->path())) inside.push_back(at->path());
    }
    if (fault) return system_error(name, fault.value());
    if (inside.empty())
      return Error{ErrorKind::kNotFound,
                   name + ": no function file in this folder (.yaml, .yml or .json)"};
    std::ranges::sort(inside);
    files.insert(files.end(), inside.begin(), inside.end());
  }
  return files;
}

}  // namespace

Result<std::vector<FunctionFile>> read_files(const std::vector<std::string>& named) {
  SLUICE_ASSIGN(names, with_folders_opened(named));
  std::vector<FunctionFile> files;
  for (const std::string& name : names) {
    SLUICE_ASSIGN(text, read_file(name));
    files.push_back({name,
                     name == "-" ? std::filesystem::current_path()
                                 : std::filesystem::absolute(name).parent_path(),
                     text});
  }
  return files;
}

}  // namespace sluice::cli
