#include "runtime/engine.h"

#include <malloc.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <system_error>

#include "runtime/engine_builtin.h"
#include "wire/http.h"
#include "wire/json.h"
#include "wire/model_description.h"
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

Result<std::string> read_file(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  if (!in) return Error{ErrorKind::kNotFound, path + ": " + std::generic_category().message(errno)};
  return std::string{std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
}

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
  if (!std::filesystem::is_regular_file(path))
    return Error{ErrorKind::kNotFound, path + ": no such file"};
  const std::string metadata = std::filesystem::path(path).replace_extension(".json");
  SLUICE_ASSIGN(text, read_file(metadata));
  Result<ModelFile> file = parse_metadata(text, path);
  if (!file.ok()) return within(metadata, file.error());
  return file;
}

Result<std::unique_ptr<Model>> load_model(const ModelFile& file) {
  const auto* engine = std::ranges::find(kEngines, file.platform, &Engine::platform);
  if (engine == std::end(kEngines))
    return Error{ErrorKind::kInvalid,
                 file.spec.path + ": this build has no engine for '" + file.platform + "'"};
  return engine->load(file);
}

Result<void> warm_up(Model& model, const ModelSpec& spec, int batch) {
  std::vector<Tensor> inputs;
  for (const TensorSpec& s : spec.inputs) {
    Tensor t{.name = s.name, .datatype = *datatype_from(s.datatype), .shape = s.shape};
    for (size_t i = 0; i < t.shape.size(); ++i)
      if (t.shape[i] < 0) t.shape[i] = i == 0 ? batch : 1;
    SLUICE_ASSIGN(count, element_count(t.shape));
    // An empty BYTES element is its length alone: four zeros.
    const size_t bytes = t.datatype == Datatype::kBytes ? 4 : element_bytes(t.datatype);
    t.data.assign(static_cast<size_t>(count) * bytes, '\0');
    inputs.push_back(std::move(t));
  }
  const auto outcome = model.run(inputs, nullptr);
  if (!outcome.ok()) return within(spec.path, outcome.error());
  // Loading left as much free memory as the model takes. Forked instances would copy what they
  // reuse.
  malloc_trim(0);
  return {};
}

}  // namespace sluice::runtime
