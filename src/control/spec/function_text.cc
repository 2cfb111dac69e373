#include "control/spec/function_text.h"

#include <yaml-cpp/yaml.h>

#include <map>
#include <span>
#include <sstream>
#include <type_traits>

#include "model/function_fields.h"
#include "model/quantity.h"
#include "model/server_kind.h"

namespace sluice::control {
namespace {

void write_tensors(YAML::Emitter& y, const char* key, const std::vector<TensorSpec>& tensors) {
  if (tensors.empty()) return;
  y << YAML::Key << key << YAML::Value << YAML::BeginSeq;
  for (const TensorSpec& t : tensors) {
    y << YAML::Flow << YAML::BeginMap << YAML::Key << "name" << YAML::Value << YAML::DoubleQuoted
      << t.name << YAML::Key << "datatype" << YAML::Value << t.datatype << YAML::Key << "shape"
      << YAML::Value << YAML::Flow << t.shape;
    if (!t.sizes.empty()) y << YAML::Key << "sizes" << YAML::Value << YAML::Flow << t.sizes;
    if (!t.sample.empty()) y << YAML::Key << "sample" << YAML::Value << YAML::Flow << t.sample;
    y << YAML::EndMap;
  }
  y << YAML::EndSeq;
}

// "[-1,3]"
std::string bracketed(const auto& numbers) {
  std::ostringstream out;
  for (const auto n : numbers) out << (out.tellp() == 0 ? "[" : ",") << n;
  return numbers.empty() ? "[]" : out.str() + "]";
}

// "x FP32 [-1,3], y INT64 [-1] like [8] of [1]"
std::string described(const std::vector<TensorSpec>& tensors) {
  std::string out;
  for (const TensorSpec& t : tensors) {
    out += (out.empty() ? "" : ", ") + t.name + " " + t.datatype + " " + bracketed(t.shape);
    if (!t.sizes.empty()) out += " like " + bracketed(t.sizes);
    if (!t.sample.empty()) out += " of " + bracketed(t.sample);
  }
  return out;
}

// "alpha: 0.8, beta: 0.2"
std::string described(const std::map<std::string, std::string>& settings) {
  std::string out;
  for (const auto& [name, text] : settings) out += (out.empty() ? "" : ", ") + name + ": " + text;
  return out.empty() ? "the policy's" : out;
}

std::string text_of(const Slice& slice) {
  return format_share(slice.sm) + " × " + format_share(slice.quota.request) + "…" +
         format_share(slice.quota.limit);
}

// "big: resnet50.pt fp32 1a2b3c4d5e6f; little: …"
std::string described(const std::vector<ModelVariant>& variants) {
  std::string out;
  for (const ModelVariant& v : variants) {
    out += (out.empty() ? "" : "; ") + (v.device_type.empty() ? "others" : v.device_type) + ": " +
           v.model.path;
    if (!v.quantization.empty()) out += " " + v.quantization;
    if (v.model.max_batch > 0)
      out += ", at most " + std::to_string(v.model.max_batch) + " at a time";
    if (!v.model.content.empty()) out += " " + v.model.content.substr(0, 12);
    if (!v.fault.empty()) out += " (not used: " + v.fault + ")";
  }
  return out.empty() ? "none" : out;
}

// Returns every field as text, by its name in a file.
std::map<std::string, std::string> flat(const FunctionSpec& s) {
  std::map<std::string, std::string> out;
  for (const FunctionField* field : fields_of(s)) out.emplace(field->name, value_text(*field, s));
  const ModelSpec& model = s.model();
  out["model.path"] = model.format == kProgram ? "none" : model.path;
  out["model.sha256"] = model.sha256.empty() ? "none" : model.sha256.substr(0, 12);
  out["model.modelFormat.name"] = model.format;
  out["model.inputs"] = described(model.inputs);
  out["model.outputs"] = described(model.outputs);
  out["model's content"] = model.content.empty() ? "not known" : model.content.substr(0, 12);
  if (s.is_inference()) out["variants"] = described(s.inference().variants);
  out["policy"] = s.policy.empty() ? "the platform's" : s.policy;
  out["policy.settings"] = described(s.policy_settings);
  out["slice"] = s.slice ? text_of(*s.slice) : "none";
  return out;
}

template <class T>
void write(YAML::Emitter& y, std::string_view key, const T& value) {
  y << YAML::Key << std::string(key) << YAML::Value << value;
}

void write_quoted(YAML::Emitter& y, std::string_view key, const std::string& text) {
  y << YAML::Key << std::string(key) << YAML::Value << YAML::DoubleQuoted << text;
}

void write_variables(YAML::Emitter& y, std::string_view key,
                     const std::map<std::string, EnvValue>& variables) {
  y << YAML::Key << std::string(key) << YAML::Value << YAML::BeginMap;
  for (const auto& [name, value] : variables) {
    y << YAML::Key << name << YAML::Value;
    if (value.secret.empty())
      y << value.text;
    else
      y << YAML::Flow << YAML::BeginMap << YAML::Key << "file" << YAML::Value << YAML::DoubleQuoted
        << value.secret << YAML::EndMap;
  }
  y << YAML::EndMap;
}

void write_field(YAML::Emitter& y, const FunctionField& field, const FunctionSpec& s) {
  const FunctionField::Slot slot = slot_of(field, s);
  std::visit(
      [&](const auto* value) {
        using T = std::remove_cvref_t<decltype(*value)>;
        if constexpr (std::is_same_v<T, Nanos>)
          write(y, key_of(field), format_duration(*value));
        else if constexpr (std::is_same_v<T, Bytes>)
          write(y, key_of(field), format_bytes(*value));
        else if constexpr (std::is_same_v<T, bool>)
          write(y, key_of(field), std::string(*value ? field.yes : field.no));
        else if constexpr (std::is_same_v<T, std::string>)
          write_quoted(y, key_of(field), *value);
        else if constexpr (std::is_same_v<T, std::map<std::string, EnvValue>>)
          write_variables(y, key_of(field), *value);
        else
          write(y, key_of(field), *value);
      },
      slot);
}

// Fields that have their default are left out, unless they must stand.
void write_fields(YAML::Emitter& y, std::span<const FunctionField> fields, const FunctionSpec& s) {
  std::string_view section;
  const auto turn_to = [&](std::string_view next) {
    if (next == section) return;
    if (!section.empty()) y << YAML::EndMap;
    section = next;
    if (!section.empty()) y << YAML::Key << std::string(section) << YAML::Value << YAML::BeginMap;
  };
  for (const FunctionField& field : fields) {
    const bool stands = section_of(field).empty() && !field.wanted.empty();
    if (!stands && is_default(field, s)) continue;
    turn_to(section_of(field));
    write_field(y, field, s);
  }
  turn_to("");
}

void write_path(YAML::Emitter& y, const ModelSpec& model) {
  if (model.sha256.empty()) return write(y, "path", model.path);
  write_quoted(y, "storageUri", model.path);
  write_quoted(y, "sha256", model.sha256);
}

void write_model(YAML::Emitter& y, const ModelSpec& model) {
  if (model.path.empty() || model.format == kProgram) return;
  y << YAML::Key << "model" << YAML::Value << YAML::BeginMap;
  write_path(y, model);
  write_tensors(y, "inputs", model.inputs);
  write_tensors(y, "outputs", model.outputs);
  y << YAML::EndMap;
}

// A variant for all other types stands as the function's model.
void write_variants(YAML::Emitter& y, const std::vector<ModelVariant>& variants) {
  y << YAML::Key << "variants" << YAML::Value << YAML::BeginSeq;
  for (const ModelVariant& v : variants) {
    if (v.device_type.empty()) continue;
    y << YAML::BeginMap;
    write_quoted(y, "deviceType", v.device_type);
    if (!v.quantization.empty()) write_quoted(y, "quantization", v.quantization);
    if (v.model.max_batch > 0) write(y, "batch", v.model.max_batch);
    write_path(y, v.model);
    write_tensors(y, "inputs", v.model.inputs);
    write_tensors(y, "outputs", v.model.outputs);
    y << YAML::EndMap;
  }
  y << YAML::EndSeq;
}

void write_models(YAML::Emitter& y, const FunctionSpec& s) {
  if (!s.is_inference() || s.inference().variants.empty()) return write_model(y, s.model());
  for (const ModelVariant& v : s.inference().variants)
    if (v.device_type.empty()) write_model(y, v.model);
  write_variants(y, s.inference().variants);
}

void write_policy(YAML::Emitter& y, const FunctionSpec& s) {
  if (s.policy_settings.empty()) {
    if (!s.policy.empty()) write(y, "policy", s.policy);
    return;
  }
  y << YAML::Key << "policy" << YAML::Value << YAML::BeginMap;
  write(y, "name", s.policy);
  write(y, "settings", s.policy_settings);
  y << YAML::EndMap;
}

void write_slice(YAML::Emitter& y, const Slice& slice) {
  y << YAML::Key << "slice" << YAML::Value << YAML::BeginMap;
  write(y, "sm", format_share(slice.sm));
  y << YAML::Key << "quota" << YAML::Value << YAML::BeginMap;
  write(y, "request", format_share(slice.quota.request));
  write(y, "limit", format_share(slice.quota.limit));
  y << YAML::EndMap;
  if (slice.memory > 0) write(y, "memory", format_bytes(slice.memory));
  y << YAML::EndMap;
}

}  // namespace

std::string to_yaml(const FunctionSpec& s) {
  YAML::Emitter y;
  y << YAML::BeginMap << YAML::Key << "apiVersion" << YAML::Value << "sluice.dev/v1alpha1";
  y << YAML::Key << "kind" << YAML::Value
    << (s.is_inference() ? "InferenceFunction" : "TrainingFunction");
  y << YAML::Key << "metadata" << YAML::Value << YAML::BeginMap;
  y << YAML::Key << "name" << YAML::Value << s.name.name << YAML::Key << "namespace" << YAML::Value
    << s.name.space;
  y << YAML::EndMap << YAML::Key << "spec" << YAML::Value << YAML::BeginMap;
  write_models(y, s);
  write_fields(y, s.is_inference() ? inference_fields() : training_fields(), s);
  write_fields(y, shared_fields(), s);
  write_policy(y, s);
  if (s.slice) write_slice(y, *s.slice);
  y << YAML::EndMap << YAML::EndMap;
  return std::string(y.c_str()) + "\n";
}

std::vector<std::string> difference(const FunctionSpec& before, const FunctionSpec& after) {
  std::vector<std::string> out;
  const auto was = flat(before), is = flat(after);
  for (const auto& [field, value] : is)
    if (const auto old = was.find(field); old == was.end() || old->second != value)
      out.push_back(field + ": " + (old == was.end() ? "none" : old->second) + " -> " + value);
  if (!before.is_inference() || !after.is_inference()) return out;
  const std::string &old = before.inference().token, &now = after.inference().token;
  if (old != now && old.empty() == now.empty()) out.push_back("token: changed");
  return out;
}

}  // namespace sluice::control
