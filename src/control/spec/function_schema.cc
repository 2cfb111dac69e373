#include "control/spec/function_schema.h"

#include <set>
#include <string>

#include "control/spec/part_schemas.h"
#include "model/function_fields.h"
#include "model/quantity.h"
#include "policy/plan/plans.h"

namespace sluice::control {
namespace {

// Returns a default that is the same for all functions; null: there is none.
Schema constant_default(const FunctionField& field, const FunctionSpec& blank) {
  if (!field.unset.empty() || !field.wanted.empty() || field.default_varies) return nullptr;
  const FunctionField::Slot slot = slot_of(field, blank);
  if (const auto* value = std::get_if<int*>(&slot)) return **value;
  if (const auto* value = std::get_if<double*>(&slot)) return **value;
  if (const auto* value = std::get_if<bool*>(&slot); value != nullptr && field.yes == "true")
    return **value;
  return value_text(field, blank);
}

Schema of_value(const FunctionField& field, const FunctionSpec& blank) {
  const FunctionField::Slot slot = slot_of(field, blank);
  if (std::holds_alternative<int*>(slot))
    return {{"type", "integer"},
            {"minimum", static_cast<int64_t>(field.least)},
            {"maximum", static_cast<int64_t>(field.most)}};
  if (std::holds_alternative<double*>(slot))
    return {{"type", "number"}, {"minimum", field.least}, {"maximum", field.most}};
  if (std::holds_alternative<Nanos*>(slot)) return duration_schema(field.least == 0);
  if (std::holds_alternative<Bytes*>(slot)) return memory_schema();
  if (std::holds_alternative<std::vector<std::string>*>(slot)) return words_schema();
  if (std::holds_alternative<std::map<std::string, EnvValue>*>(slot)) return variables_schema();
  if (std::holds_alternative<bool*>(slot)) {
    if (field.yes == "true") return {{"type", "boolean"}};
    return {{"type", "string"}, {"enum", {field.no, field.yes}}};
  }
  Schema text{{"type", "string"}};
  if (!field.words.empty()) text["enum"] = field.words;
  return text;
}

// Returns "meaning. 1ms to 24h; default: 1m".
std::string description_of(const FunctionField& field, const FunctionSpec& blank) {
  std::string text = plain_meaning(field.meaning);
  const FunctionField::Slot slot = slot_of(field, blank);
  if (std::holds_alternative<Nanos*>(slot)) text += "; " + allowed_text(field, blank);
  if (!field.unset.empty() && field.unset != "none")
    text += "; default: " + plain_meaning(field.unset);
  return text;
}

Schema of_field(const FunctionField& field, const FunctionSpec& blank) {
  Schema out{{"description", description_of(field, blank)}};
  out.update(of_value(field, blank));
  if (Schema value = constant_default(field, blank); !value.is_null()) out["default"] = value;
  return out;
}

// Adds the table's fields to `spec`, those of a section in an object of its own.
void add_table(Schema& spec, const FunctionSpec& blank) {
  for (const FunctionField* field : fields_of(blank)) {
    const std::string section(section_of(*field)), key(key_of(*field));
    if (section.empty()) {
      spec["properties"][key] = of_field(*field, blank);
      if (!field->wanted.empty()) require(spec, key);
      continue;
    }
    Schema& inner = spec["properties"][section];
    if (inner.is_null()) inner = object_schema({});
    inner["properties"][key] = of_field(*field, blank);
    if (!field->wanted.empty()) require(inner, key);
  }
}

void add_shared_parts(Schema& properties) {
  properties["policy"] = policy_schema();
  properties["slice"] = slice_schema();
}

Schema document(const char* kind, Schema spec) {
  Schema metadata = object_schema({{"name", name_schema()},
                                   {"namespace", {{"type", "string"}}},
                                   {"labels", {{"type", "object"}}},
                                   {"annotations", {{"type", "object"}}}});
  require(metadata, "name");
  Schema out = object_schema({{"apiVersion", {{"enum", {"sluice.dev/v1alpha1"}}}},
                              {"kind", {{"enum", {kind}}}},
                              {"metadata", std::move(metadata)},
                              {"spec", std::move(spec)}});
  for (const char* key : {"apiVersion", "kind", "metadata", "spec"}) require(out, key);
  return out;
}

}  // namespace

Schema inference_schema() {
  Schema spec = object_schema({{"model", model_schema()}, {"variants", variants_schema()}});
  add_table(spec, {});
  Schema& properties = spec["properties"];
  require(properties["server"], "command");
  properties["predictor"] = predictor_schema();
  add_shared_parts(properties);
  properties["gpuCores"] = with_meaning("gpuCores", share_schema());
  properties["gpuCount"] =
      with_meaning("gpuCount", {{"type", "integer"}, {"minimum", 1}, {"maximum", 1}});
  for (const char* content : {"model", "variants", "server", "predictor"})
    spec["anyOf"].push_back({{"required", {content}}});
  return spec;
}

Schema training_schema() {
  Schema model =
      object_schema({{"path",
                      {{"description", plain_meaning(other_training_fields()[0].meaning)},
                       {"type", "string"},
                       {"minLength", 1}}}});
  require(model, "path");
  Schema spec = object_schema({{"model", std::move(model)}});
  add_table(spec, {.kind = TrainingSpec{}});
  spec["properties"]["plan"]["enum"] = policy::plan_names();
  add_shared_parts(spec["properties"]);
  spec["anyOf"] = {{{"required", {"model", "dataset"}}}, {{"required", {"command"}}}};
  return spec;
}

Schema name_schema() {
  return {{"type", "string"},
          {"maxLength", 63},
          {"pattern", "^[A-Za-z0-9]([-_.A-Za-z0-9]*[A-Za-z0-9])?$"}};
}

Schema file_schema() {
  return {{"$schema", "http://json-schema.org/draft-07/schema#"},
          {"title", "Sluice function files"},
          {"oneOf",
           {document("InferenceFunction", inference_schema()),
            document("TrainingFunction", training_schema())}}};
}

}  // namespace sluice::control
