#include "control/spec/part_schemas.h"

#include <algorithm>
#include <string>

#include "base/check.h"
#include "model/function_fields.h"
#include "model/server_kind.h"
#include "policy/bundle.h"
#include "wire/json/model_description.h"

namespace sluice::control {
namespace {

// As std::from_chars reads it, without an exponent.
const std::string kNumber = "([0-9]+[.]?[0-9]*|[.][0-9]+)";
constexpr int kLeastPort = 1024, kMostPort = 65535;

const Schema kText{{"type", "string"}}, kWhole{{"type", "integer"}};
const Schema kScalar{{"type", {"number", "string", "boolean"}}};

Schema list_of(Schema items, int least = 0) {
  Schema out{{"type", "array"}, {"items", std::move(items)}};
  if (least > 0) out["minItems"] = least;
  return out;
}

// A number without a unit is allowed if it is 0.
Schema quantity(const std::string& units, bool may_be_zero) {
  const std::string pattern = kNumber + "(" + units + ")";
  if (!may_be_zero) return {{"type", "string"}, {"pattern", "^" + pattern + "$"}};
  return {{"type", {"integer", "string"}},
          {"minimum", 0},
          {"maximum", 0},
          {"pattern", "^(0|" + pattern + ")$"}};
}

Schema datatypes() {
  Schema all = Schema::array();
  for (const ServerKind& kind : server_kinds())
    for (const std::string_view type :
         kind.described ? wire::datatypes_of(kind.platform) : std::vector<std::string_view>{})
      if (std::ranges::find(all, Schema(type)) == all.end()) all.push_back(type);
  return all;
}

Schema tensors(bool inputs) {
  Schema properties{{"name", kText},
                    {"datatype", {{"type", "string"}, {"enum", datatypes()}}},
                    {"shape", list_of(kWhole)}};
  if (inputs) {
    properties["sizes"] = with_meaning("model.inputs[].sizes", list_of(kWhole));
    properties["sample"] = with_meaning(
        "model.inputs[].sample", {{"type", {"number", "array"}}, {"items", {{"type", "number"}}}});
  }
  Schema item = object_schema(std::move(properties));
  for (const char* key : {"name", "datatype", "shape"}) require(item, key);
  return list_of(std::move(item), 1);
}

// What a model and a variant have in common; one of `path` and `storageUri` is required.
Schema model_file() {
  const Schema path{{"type", "string"}, {"minLength", 1}};
  Schema out = object_schema(
      {{"path", with_meaning("model.path", path)},
       {"storageUri", with_meaning("model.storageUri", path)},
       {"sha256",
        with_meaning("model.sha256", {{"type", "string"}, {"pattern", "^[0-9a-fA-F]{64}$"}})},
       {"inputs", with_meaning("model.inputs", tensors(true))},
       {"outputs", with_meaning("model.outputs", tensors(false))}});
  for (const char* key : {"path", "storageUri"}) out["anyOf"].push_back({{"required", {key}}});
  return out;
}

Schema port(int lowest) {
  return {{"type", "integer"}, {"minimum", lowest}, {"maximum", kMostPort}};
}

Schema probe() {
  Schema get = object_schema({{"path", kText}, {"port", port(1)}});
  require(get, "path");
  return object_schema({{"httpGet", std::move(get)}});
}

}  // namespace

Schema object_schema(Schema properties) {
  if (properties.is_null()) properties = Schema::object();
  return {
      {"type", "object"}, {"properties", std::move(properties)}, {"additionalProperties", false}};
}

void require(Schema& object, std::string_view key) {
  object["required"].push_back(key);
}

Schema with_meaning(std::string_view field, Schema schema) {
  const auto found = std::ranges::find(other_fields(), field, &OtherField::name);
  SLUICE_CHECK(found != other_fields().end(), std::string(field));
  Schema out{{"description", plain_meaning(found->meaning)}};
  out.update(schema);
  return out;
}

Schema duration_schema(bool may_be_zero) {
  return quantity("ns|us|ms|s|m|h", may_be_zero);
}

Schema memory_schema() {
  return quantity("B|k|M|G|T|Ki|Mi|Gi|Ti", true);
}

// 20%, "0.2", 0.2
Schema share_schema() {
  return {{"type", {"number", "string"}},
          {"minimum", 0.001},
          {"maximum", 1},
          {"pattern", "^" + kNumber + "%?$"}};
}

// A fraction or a truth value would lose its text where YAML becomes JSON: 1.10, yes.
Schema words_schema() {
  return list_of({{"type", {"integer", "string"}}}, 1);
}

Schema variables_schema() {
  Schema value{{"type", {"integer", "string", "object"}},
               {"properties", {{"file", {{"type", "string"}}}}},
               {"additionalProperties", false},
               {"required", {"file"}}};
  return {{"type", "object"}, {"additionalProperties", std::move(value)}};
}

Schema model_schema() {
  Schema kinds = Schema::array();
  for (const ServerKind& kind : server_kinds())
    if (kind.described) kinds.push_back(kind.name);
  Schema out = model_file();
  out["properties"]["modelFormat"] = object_schema(
      {{"name", with_meaning("model.modelFormat.name", {{"type", "string"}, {"enum", kinds}})}});
  return out;
}

Schema variants_schema() {
  constexpr int kMost = 32, kLargestBatch = 256;
  Schema item = model_file();
  item["properties"]["deviceType"] = {{"type", "string"}, {"minLength", 1}};
  item["properties"]["quantization"] = kText;
  item["properties"]["batch"] = {{"type", "integer"}, {"minimum", 1}, {"maximum", kLargestBatch}};
  require(item, "deviceType");
  Schema list = list_of(std::move(item), 1);
  list["maxItems"] = kMost;
  return with_meaning("variants", std::move(list));
}

Schema policy_schema() {
  Schema names = Schema::array();
  std::string pattern;
  for (const policy::Bundle& b : policy::bundles()) {
    names.push_back(b.name);
    pattern += (pattern.empty() ? "" : "|") + std::string(b.name);
  }
  const Schema settings{{"type", "object"}, {"additionalProperties", kScalar}};
  return with_meaning(
      "policy",
      {{"type", {"string", "object"}},
       {"pattern", "^(" + pattern + ")$"},
       {"properties", {{"name", {{"type", "string"}, {"enum", names}}}, {"settings", settings}}},
       {"additionalProperties", false},
       {"required", {"name"}}});
}

Schema slice_schema() {
  Schema quota = object_schema({{"request", with_meaning("slice.quota.request", share_schema())},
                                {"limit", with_meaning("slice.quota.limit", share_schema())}});
  return object_schema({{"sm", with_meaning("slice.sm", share_schema())},
                        {"quota", std::move(quota)},
                        {"memory", with_meaning("slice.memory", memory_schema())}});
}

Schema predictor_schema() {
  Schema variable = object_schema({{"name", kText}, {"value", kText}});
  require(variable, "name");
  Schema served = object_schema({{"containerPort", port(kLeastPort)},
                                 {"name", kText},
                                 {"protocol", {{"type", "string"}, {"enum", {"TCP"}}}}});
  require(served, "containerPort");
  Schema ports = list_of(std::move(served), 1);
  ports["maxItems"] = 1;
  Schema container = object_schema(
      {{"image", kText},
       {"name", kText},
       {"command", words_schema()},
       {"args", words_schema()},
       {"env", list_of(std::move(variable))},
       {"ports", std::move(ports)},
       {"readinessProbe", probe()},
       {"resources", object_schema({{"limits", object_schema({{"memory", memory_schema()}})}})}});
  require(container, "command");
  Schema containers = list_of(std::move(container), 1);
  containers["maxItems"] = 1;
  Schema out = object_schema({{"containers", std::move(containers)}});
  require(out, "containers");
  return with_meaning("predictor", std::move(out));
}

}  // namespace sluice::control
