#include "runtime/engine.h"

#include <malloc.h>

#include <algorithm>
#include <filesystem>

#include "base/read_file.h"
#include "runtime/engine_builtin.h"
#include "runtime/sample.h"
#include "wire/http/http.h"
#include "wire/json/json.h"
#include "wire/json/model_description.h"
#if SLUICE_WITH_TORCH
#include "runtime/engine_torch.h"
#endif

namespace sluice::runtime {
namespace {

using LoadModel = Result<std::unique_ptr<Model>> (*)(const ModelFile&);

struct Engine {
  std::string_view platform;
  LoadModel load;
};
constexpr Engine kEngines[] = {
    {"sluice_builtin", load_builtin},
#if SLUICE_WITH_TORCH
    {"pytorch_torchscript", load_torchscript},
#endif
};

Result<ModelFile> parse_metadata(const std::string& text, const std::string& path) {
  SLUICE_ASSIGN(json, wire::parse_json(text));
  SLUICE_ASSIGN(described, wire::model_description_from(json));
  ModelFile file{
      .name = described.name.empty() ? std::filesystem::path(path).stem().string() : described.name,
      .platform = described.platform};
  file.spec.path = path;
  file.spec.inputs = std::move(described.inputs);
  file.spec.outputs = std::move(described.outputs);
  return file;
}

}  // namespace

Result<ModelFile> read_model_file(const std::string& path) {
  SLUICE_ASSIGN(opened, RegularFile::open(path));
  const std::string metadata = std::filesystem::path(path).replace_extension(".json");
  SLUICE_ASSIGN(text, read_file(metadata));
  Result<ModelFile> file = parse_metadata(text, path);
  if (!file.ok()) return within(metadata, file.error());
  file->opened = std::make_shared<const RegularFile>(std::move(opened));
  return file;
}

Result<std::unique_ptr<Model>> load_model(const ModelFile& file) {
  const auto* engine = std::ranges::find(kEngines, file.platform, &Engine::platform);
  if (engine == std::end(kEngines))
    return Error{ErrorKind::kInvalid,
                 file.spec.path + ": this build has no engine for '" + file.platform + "'"};
  return engine->load(file);
}

Result<std::string> warm_up(Model& model, const ModelSpec& spec, int batch) {
  std::vector<Tensor> inputs;
  for (const TensorSpec& input : spec.inputs) {
    auto sample = sample_of(input, {.batch = batch});
    if (!sample.ok()) return sample.error().message;
    inputs.push_back(std::move(*sample));
  }
  const auto outcome = model.run(inputs, nullptr);
  if (!outcome.ok() && model.fails_always()) return within(spec.path, outcome.error());
  // Loading left as much free memory as the model takes. Forked instances would copy what they
  // reuse.
  malloc_trim(0);
  return outcome.ok() ? std::string() : outcome.error().message;
}

}  // namespace sluice::runtime
