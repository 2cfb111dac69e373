#include "control/spec/model_fields.h"

#include <yaml-cpp/yaml.h>

#include <algorithm>
#include <cmath>
#include <filesystem>

#include "control/spec/model_url.h"
#include "model/server_kind.h"
#include "wire/json/model_description.h"

namespace sluice::control {
namespace {

constexpr size_t kMostVariants = 32;

constexpr size_t kChecksumDigits = 64;
constexpr std::string_view kModels = "/models/";  // a folder of models, in an image

// Complains of a URI of another kind, such as s3://….
void refuse_other_schemes(Fields& f, const std::string& key, const std::string& uri) {
  if (const size_t scheme = uri.find("://"); scheme != uri.npos && uri.substr(0, scheme) != "file")
    f.complain(key, "\"" + uri +
                        "\": file://, https:// and http:// are served; download it first, or put "
                        "it on a web server");
}

bool is_checksum(const std::string& text) {
  return text.size() == kChecksumDigits &&
         text.find_first_not_of("0123456789abcdefABCDEF") == text.npos;
}

// A model that is fetched is named by its checksum, too, so that a function is always the same.
void check_url(Fields& m, const std::string& key, const ModelSpec& model) {
  if (const auto url = parse_model_url(model.path); !url.ok()) m.complain(key, url.error().message);
  if (model.sha256.empty())
    m.complain("sha256",
               "is missing: a model that is fetched has the SHA-256 of its file here, as "
               "sha256sum prints it");
}

// Reads a tensor's dimensions; none: one number.
void read_shape(Fields& f, const char* key, std::vector<int64_t>& out) {
  const YAML::Node list = f.take(key);
  if (!list.IsDefined()) return;
  bool good = list.IsSequence();
  for (size_t i = 0; good && i < list.size(); ++i) {
    out.push_back(0);
    good = list[i].IsScalar() && YAML::convert<int64_t>::decode(list[i], out.back());
  }
  if (!good) f.complain(key, "must be a list of whole numbers, such as [-1, 3]");
}

// Reads the values of a usual request: a number or a list.
void read_sample(Fields& f, std::vector<double>& out) {
  const YAML::Node node = f.take("sample");
  if (!node.IsDefined()) return;
  bool good = node.IsScalar() || (node.IsSequence() && node.size() > 0);
  for (size_t i = 0; good && i < (node.IsSequence() ? node.size() : 1); ++i) {
    const YAML::Node value = node.IsSequence() ? node[i] : node;
    out.push_back(0);
    good = value.IsScalar() && YAML::convert<double>::decode(value, out.back()) &&
           std::isfinite(out.back());
  }
  if (!good) f.complain("sample", "must be a number or a list of numbers");
}

void read_tensors(Fields& f, const std::string& key, std::string_view platform,
                  std::vector<TensorSpec>& out, Source& source, Problems& problems) {
  const YAML::Node list = f.take(key);
  if (!list.IsDefined()) return;
  if (!list.IsSequence() || list.size() == 0)
    return f.complain(key, "must be a list of {name, datatype, shape}, of one at least");
  for (size_t i = 0; i < list.size(); ++i) {
    Fields item(list[i], f.path_of(key) + "[" + std::to_string(i) + "]", source, problems);
    item.need("name", "the tensor's name");
    item.need("datatype", "a datatype such as FP32");
    item.need("shape", "its dimensions, such as [-1, 3]");
    const size_t before = problems.size();
    TensorSpec t;
    const bool named = item.text("name", t.name), typed = item.text("datatype", t.datatype);
    read_shape(item, "shape", t.shape);
    if (key == "inputs") {
      read_shape(item, "sizes", t.sizes);
      read_sample(item, t.sample);
    }
    if (problems.size() == before)
      for (const auto& [field, why] : wire::tensor_problems(t, platform))
        if ((field != "name" || named) && (field != "datatype" || typed)) item.complain(field, why);
    if (named && std::ranges::find(out, t.name, &TensorSpec::name) != out.end())
      item.complain("name", "\"" + t.name + "\" stands twice");
    out.push_back(std::move(t));
  }
}

void read_model_file(Fields& m, ModelSpec& model, const FileContext& context) {
  if (!m.has("storageUri")) m.need("path", "the model's file");
  const bool by_uri = m.text("storageUri", model.path), by_path = m.text("path", model.path);
  const std::string key = by_uri && !by_path ? "storageUri" : "path";
  if (by_uri && by_path) m.complain("path", "stands beside storageUri; one of the two is allowed");
  if ((by_uri || by_path) && model.path.empty()) m.complain(key, "\"\" is no file");
  if (m.text("sha256", model.sha256) && !is_checksum(model.sha256))
    m.complain("sha256", "\"" + model.sha256.substr(0, kChecksumDigits) +
                             "\" is no SHA-256: 64 hexadecimal digits");
  if (is_url(model.path)) return check_url(m, key, model);
  refuse_other_schemes(m, key, model.path);
  if (!model.sha256.empty())
    m.complain("sha256", "is of a model that is fetched, by https:// or http://");
  check_reachable(m, key, model.path, context);
  model.path = absolute(model.path, context);
}

void read_described(Fields& m, ModelSpec& model, Source& source, Problems& problems) {
  const std::string_view platform = kind_of(model).platform;
  if (m.has("inputs")) m.need("outputs", "the model's outputs, beside its inputs");
  if (m.has("outputs")) m.need("inputs", "the model's inputs, beside its outputs");
  read_tensors(m, "inputs", platform, model.inputs, source, problems);
  read_tensors(m, "outputs", platform, model.outputs, source, problems);
}

// One of `variants`; what its file lacks is found later.
void read_variant(Fields& v, ModelVariant& out, const FileContext& context, Source& source,
                  Problems& problems) {
  v.need("deviceType", "a type of devices, as `sluice get devices` shows it");
  if (v.text("deviceType", out.device_type) && out.device_type.empty())
    v.complain("deviceType", "\"\" is no type");
  v.text("quantization", out.quantization);
  v.integer("batch", out.model.max_batch, 1, 256);
  read_model_file(v, out.model, context);
  read_described(v, out.model, source, problems);
}

}  // namespace

std::string absolute(std::string path, const FileContext& context) {
  if (path.starts_with("file://")) path.erase(0, 7);
  if (is_url(path)) return path;
  if (path.starts_with("~/")) return context.home + path.substr(1);
  if (path.starts_with(kModels) && !context.models.empty())
    return context.models + path.substr(kModels.size() - 1);
  if (path.empty() || path.front() == '/' || context.folder.empty()) return path;
  return (std::filesystem::path(context.folder) / path).lexically_normal();
}

void check_reachable(Fields& f, const std::string& key, const std::string& path,
                     const FileContext& context) {
  if (!context.for_cluster || path.empty() || path.front() == '/' || path.starts_with("file:///"))
    return;
  f.complain(key, "\"" + path +
                      "\" is on your machine, which a cluster does not reach. A model there is "
                      "file:///models/…, in its image, or https://…");
}

void read_model(Fields& f, InferenceSpec& s, const FileContext& context, Source& source,
                Problems& problems) {
  section(f, "model", source, problems, [&](Fields& m) {
    section(m, "modelFormat", source, problems, [&](Fields& format) {
      std::string name;
      if (!format.text("name", name)) return;
      if (const ServerKind* kind = find_server_kind(name); kind != nullptr && kind->described)
        s.model.format = name;
      else
        format.complain("name",
                        "\"" + name + "\" is not served: " + names_of_server_kinds() + " is");
    });
    read_model_file(m, s.model, context);
    read_described(m, s.model, source, problems);
  });
}

void read_variants(Fields& f, InferenceSpec& s, const FileContext& context, Source& source,
                   Problems& problems) {
  const YAML::Node list = f.take("variants");
  if (!list.IsDefined()) {
    const char* none = "chooses among `variants`, and there are none";
    if (!s.quantization.empty()) f.complain("quantization", none);
    if (s.batch > 0) f.complain("batch", none);
    return;
  }
  if (!list.IsSequence() || list.size() == 0 || list.size() > kMostVariants)
    return f.complain("variants",
                      "must be a list of {deviceType, quantization, batch, path}, of "
                      "one to " +
                          std::to_string(kMostVariants));
  for (size_t i = 0; i < list.size(); ++i) {
    ModelVariant variant;
    Fields item(list[i], f.path_of("variants") + "[" + std::to_string(i) + "]", source, problems);
    read_variant(item, variant, context, source, problems);
    if ((!s.quantization.empty() && variant.quantization != s.quantization) ||
        (s.batch > 0 && variant.model.max_batch != s.batch))
      continue;
    if (std::ranges::find(s.variants, variant.device_type, &ModelVariant::device_type) !=
        s.variants.end())
      item.complain("deviceType", "'" + variant.device_type +
                                      "' has another variant; the function's `quantization` and "
                                      "`batch` choose one");
    s.variants.push_back(std::move(variant));
  }
  if (s.variants.empty())
    return f.complain("variants", "none of them has the function's quantization and batch");
  if (!s.model.path.empty())
    s.variants.push_back({"", "", s.model, ""});
  else
    s.model = s.variants.front().model;
}

void check_variants(InferenceSpec& s, const ModelCheck& check_model, const Source& source,
                    Problems& problems) {
  const ModelSpec *first = nullptr, *own = nullptr;  // the function's own is the last one
  for (size_t i = 0; i < s.variants.size(); ++i) {
    ModelVariant& v = s.variants[i];
    const int batch = v.model.max_batch;
    if (const auto checked = check_model(v.model); !checked.ok()) {
      v.fault = checked.error().message;
      continue;
    }
    if (batch > 0) v.model.max_batch = batch;
    if (first == nullptr) first = &v.model;
    if (v.device_type.empty()) own = &v.model;
    if (v.model.inputs != first->inputs || v.model.outputs != first->outputs)
      problems.push_back(source.at("spec.variants[" + std::to_string(i) + "].path") + ": " +
                         v.model.path + ": has other inputs or outputs than " + first->path +
                         "; callers do not choose between variants");
  }
  if (first != nullptr)
    s.model = own != nullptr ? *own : *first;
  else
    problems.push_back(source.at("spec.variants") +
                       ": none can be served: " + s.variants.front().fault);
}

void bound_batch(InferenceSpec& s, const Source& source, Problems& problems) {
  if (s.model.max_batch == 0 || !s.variants.empty()) return;
  if (!source.lines.contains("spec.batcher.maxBatchSize")) s.batching.max_size = s.model.max_batch;
  if (s.batching.max_size > s.model.max_batch)
    problems.push_back(source.at("spec.batcher.maxBatchSize") + ": " +
                       std::to_string(s.batching.max_size) +
                       " is above the model's max_batch_size " + std::to_string(s.model.max_batch));
}

}  // namespace sluice::control
