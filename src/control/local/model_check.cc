#include "control/local/model_check.h"

#include <algorithm>
#include <filesystem>
#include <iterator>
#include <string>

#include "base/check.h"
#include "base/regular_file.h"
#include "control/local/model_archive.h"
#include "control/local/model_folder.h"
#include "control/local/program_content.h"
#include "control/spec/model_url.h"
#include "model/server_kind.h"
#include "wire/json/json.h"
#include "wire/json/model_description.h"

namespace sluice::control {
namespace {

constexpr size_t kLargestSidecar = 1 << 20;

// Returns how to make the models of examples/, if one of them is missing; else nothing.
std::string hint_of_missing(const std::filesystem::path& model) {
  std::error_code fault;
  const std::string folder = model.parent_path();
  const bool of_image = folder == "/models";
  if (!of_image && !folder.ends_with("/.cache/sluice/models")) return "";
  if (std::filesystem::exists(model, fault) || fault) return "";
  return of_image ? ". In an image, `deploy/image --models` puts models there; on a machine, "
                    "`tools/make_models /models` makes those of the examples."
                  : ". `tools/make_models` makes the models of the examples in this folder.";
}

// The reader of a kind's files.
struct Reader {
  std::string_view kind;
  Result<void> (*check)(const std::string& path);
};
constexpr Reader kReaders[] = {
    {"torchscript", check_model_archive},
};

}  // namespace

Result<void> check_model_file(const ModelSpec& model, const std::string& path) {
  const auto found = std::ranges::find(kReaders, model.format, &Reader::kind);
  SLUICE_CHECK(found != std::end(kReaders), model.format);
  return found->check(path);
}

Result<void> describe_model(ModelSpec& model, std::string_view sidecar, const std::string& shown) {
  const auto parsed = wire::parse_json(std::string(sidecar));
  if (!parsed.ok()) return within(shown, parsed.error());
  const auto described = wire::model_description_from(*parsed);
  if (!described.ok()) return within(shown, described.error());
  const std::string platform(kind_of(model).platform);
  if (described->platform != platform)
    return Error{ErrorKind::kInvalid, shown + ": platform: \"" + described->platform +
                                          "\" is not served: " + platform +
                                          " is, and may be left out"};
  model.inputs = described->inputs;
  model.outputs = described->outputs;
  return {};
}

Result<void> check_model(ModelSpec& model) {
  if (model.format == kProgram) return check_program(model.program);
  if (is_url(model.path))
    return Error{ErrorKind::kInvalid, model.path +
                                          ": only the platform fetches it, when it is applied. To "
                                          "measure or inspect it before, download it and name the "
                                          "file"};
  SLUICE_TRY(resolve_folder(model));
  if (const auto file = check_model_file(model, model.path); !file.ok())
    return Error{ErrorKind::kInvalid, file.error().message + hint_of_missing(model.path)};
  if (!model.inputs.empty()) return {};
  const std::string sidecar = std::filesystem::path(model.path).replace_extension(".json");
  const auto file = RegularFile::open(sidecar);
  if (!file.ok())
    return Error{ErrorKind::kInvalid,
                 file.error().message +
                     ". Describe the model's inputs and outputs in that file or in model.inputs "
                     "and model.outputs; `sluice init` writes both files."};
  if (file->size() > kLargestSidecar)
    return Error{ErrorKind::kInvalid, sidecar + ": has " + std::to_string(file->size()) +
                                          " bytes; at most " + std::to_string(kLargestSidecar) +
                                          " are allowed"};
  return describe_model(model, file->read(0, kLargestSidecar), sidecar);
}

}  // namespace sluice::control
