#include "wire/json/function_json.h"

#include <algorithm>
#include <type_traits>

#include "model/function_fields.h"
#include "model/server_kind.h"
#include "wire/json/birth_json.h"

namespace sluice::wire {
namespace {

using nlohmann::json;

template <class T>
json stored_value(const FunctionField& field, const T& value) {
  if constexpr (std::is_same_v<T, Nanos>)
    return value / field.stored_in;
  else if constexpr (std::is_same_v<T, std::map<std::string, EnvValue>>)
    return to_json(value);
  else
    return value;
}

void read_command(Fields& f, std::string_view key, std::vector<std::string>& command) {
  for (const json& word : f.list(key)) {
    if (!word.is_string()) f.fail(key, "must be a list of texts");
    command.push_back(word.is_string() ? word.get<std::string>() : "");
  }
}

void read_variables(Fields& f, std::string_view key, std::map<std::string, EnvValue>& variables) {
  const json* object = f.child(key);
  if (object == nullptr) return;
  if (!object->is_object()) return f.fail(key, "must be an object");
  for (const auto& [name, value] : object->items()) {
    const bool is_secret = value.is_object() && value.contains("file") && value["file"].is_string();
    if (!value.is_string() && !is_secret)
      return f.fail(key, "must have texts, or {\"file\": text}, as values");
    EnvValue& variable = variables[name];
    (is_secret ? variable.secret : variable.text) = is_secret ? value["file"] : value;
  }
}

void read_word(Fields& f, const FunctionField& field, const FunctionSpec& s, std::string& out) {
  out = f.text(field.stored, out);
  if (out.empty() || field.words.empty()) return;
  if (std::ranges::find(field.words, out) == field.words.end())
    f.fail(field.stored, "'" + out + "' is none of " + allowed_text(field, s));
}

// What is left out has its default, which may lie beyond the bounds: it is not stated then.
void read_field(Fields& f, const FunctionField& field, FunctionSpec& s) {
  const FunctionField::Slot slot = field.slot(s);
  const auto whole = [&](int64_t otherwise, double unit) {
    return f.integer(field.stored, otherwise,
                     std::min(otherwise, static_cast<int64_t>(field.least * unit)),
                     static_cast<int64_t>(field.most * unit));
  };
  if (auto* const* out = std::get_if<int*>(&slot))
    **out = static_cast<int>(whole(**out, 1));
  else if (auto* const* out = std::get_if<Nanos*>(&slot))
    **out = field.stored_in *
            whole(**out / field.stored_in, static_cast<double>(Seconds(1) / field.stored_in));
  else if (auto* const* out = std::get_if<double*>(&slot))
    **out = f.number(field.stored, **out, std::min(**out, field.least), field.most);
  else if (auto* const* out = std::get_if<bool*>(&slot))
    **out = f.boolean(field.stored, **out);
  else if (auto* const* out = std::get_if<Bytes*>(&slot))
    **out = f.integer(field.stored, **out, 0, Bytes{1} << 60);  // sums do not overflow
  else if (auto* const* out = std::get_if<std::string*>(&slot))
    read_word(f, field, s, **out);
  else if (auto* const* out = std::get_if<std::vector<std::string>*>(&slot))
    read_command(f, field.stored, **out);
  else
    read_variables(f, field.stored, *std::get<std::map<std::string, EnvValue>*>(slot));
}

void check(Fields& f, const TrainingSpec& s) {
  if (s.command.empty() && s.model.path.empty()) f.fail("model", "is missing, as is a command");
  if (s.max_workers != 0 && s.max_workers < s.min_workers)
    f.fail("max_workers", std::to_string(s.max_workers) + " is below min_workers, " +
                              std::to_string(s.min_workers));
  if (s.batch.most != 0 && s.batch.most < s.batch.least)
    f.fail("max_batch",
           std::to_string(s.batch.most) + " is below min_batch, " + std::to_string(s.batch.least));
}

const ProgramSpec& program_of(const FunctionSpec& s) {
  return s.model().program;
}

json variant_json(const ModelVariant& v) {
  json out = {{"device_type", v.device_type}, {"model", wire::to_json(v.model)}};
  if (!v.quantization.empty()) out["quantization"] = v.quantization;
  if (!v.fault.empty()) out["fault"] = v.fault;
  return out;
}

Result<ModelVariant> variant_from(const json& j) {
  Fields f(j, "variant");
  ModelVariant v;
  v.device_type = f.text("device_type");
  v.quantization = f.text("quantization");
  v.model = f.part("model", &model_spec_from);
  v.fault = f.text("fault");
  return f.finish(std::move(v));
}

}  // namespace

json to_json(const std::map<std::string, EnvValue>& variables) {
  json out = json::object();
  for (const auto& [name, value] : variables)
    out[name] = value.secret.empty() ? json(value.text) : json{{"file", value.secret}};
  return out;
}

json to_json(const FunctionSpec& s) {
  json out = {{"kind", s.is_inference() ? "inference" : "training"},
              {"name", to_string(s.name)},
              {"model", to_json(s.model())},
              {"policy", s.policy},
              {"policy_settings", s.policy_settings}};
  if (s.is_inference()) out["batching"] = to_json(s.inference().batching);
  if (s.is_inference() && !s.inference().variants.empty())
    for (const ModelVariant& v : s.inference().variants) out["variants"].push_back(variant_json(v));
  // A program's fields are a program's alone; what earlier versions did not have is left out.
  const auto is_left_out = [&](const FunctionField& field) {
    if ((field.stored_if_set || !field.words.empty()) && is_default(field, s)) return true;
    return field.stored.empty() || (section_of(field) == "server" && s.model().format != kProgram);
  };
  for (const FunctionField* field : fields_of(s))
    if (!is_left_out(*field))
      out[std::string(field->stored)] = std::visit(
          [&](const auto* value) { return stored_value(*field, *value); }, slot_of(*field, s));
  if (s.slice) out["slice"] = to_json(*s.slice);
  return out;
}

Result<FunctionSpec> function_spec_from(const json& j) {
  Fields f(j, "function");
  FunctionSpec s;
  s.name = function_name(f.text("name"));
  if (s.name.name.empty()) f.fail("name", "must not be empty");
  s.policy = f.text("policy");
  if (const json* settings = f.child("policy_settings"); settings != nullptr) {
    if (!settings->is_object()) f.fail("policy_settings", "must be an object");
    for (const auto& [name, text] : settings->items())
      if (text.is_string()) s.policy_settings[name] = text;
  }
  if (f.child("slice") != nullptr) s.slice = f.part("slice", &slice_from);
  const std::string kind = f.text("kind", "inference");
  if (kind == "training")
    s.kind = TrainingSpec{};
  else if (kind != "inference")
    f.fail("kind", "'" + kind + "' is neither inference nor training");
  s.model() = f.part("model", &model_spec_from);
  if (s.is_inference()) {
    s.inference().batching = f.part("batching", &batching_from);
    s.inference().variants = f.parts("variants", variant_from);
  }
  for (const FunctionField* field : fields_of(s))
    if (!field->stored.empty()) read_field(f, *field, s);
  if (!s.is_inference()) check(f, s.training());
  if ((s.model().format == kProgram) != !program_of(s).command.empty())
    f.fail("server_command", "is a program's, and only a program's");
  if (const std::string problem = device_problem(s); !problem.empty()) f.fail("device", problem);
  return f.finish(std::move(s));
}

}  // namespace sluice::wire
