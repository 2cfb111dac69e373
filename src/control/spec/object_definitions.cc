#include "control/spec/object_definitions.h"

#include <algorithm>
#include <set>

#include "control/spec/part_schemas.h"
#include "control/spec/schema_yaml.h"

namespace sluice::control {
namespace {

constexpr const char* kPreserve = "x-kubernetes-preserve-unknown-fields";

const Schema kTextValue{{"type", "string"}};
const Schema kNumberValue{{"type", "integer"}, {"format", "int64"}};
const Schema kOpaque{{"type", "object"}, {kPreserve, true}};

struct Names {
  const char *kind, *meaning, *plural, *short_name;  // no short name: the platform's own
};

Schema named(const char* meaning, const Schema& schema) {
  Schema out{{"description", meaning}};
  out.update(schema);
  return out;
}

// Removes the list of types, and bounds what may stand there by its content alone.
void lose_types(Schema& out, const std::set<std::string>& types) {
  out.erase("type");
  if (types == std::set<std::string>{"integer", "string"}) {
    out["x-kubernetes-int-or-string"] = true;
    return;
  }
  out[kPreserve] = true;
  if (types.contains("integer") && !types.contains("number")) out["multipleOf"] = 1;
  if (!types.contains("object")) out["maxProperties"] = 0;
  if (!types.contains("array")) out["maxItems"] = 0;
}

// Columns of `kubectl get`; those of priority 1 with `-o wide` alone.
Schema column(const char* name, const char* type, const char* path, const char* meaning,
              int priority = 0) {
  Schema out{{"name", name}, {"type", type}, {"jsonPath", path}, {"description", meaning}};
  if (priority > 0) out["priority"] = priority;
  return out;
}

Schema inference_columns() {
  return {column("READY", "string", ".status.conditions[?(@.type==\"Ready\")].status",
                 "whether it serves"),
          column("REVISION", "integer", ".status.serving", "the one that serves"),
          column("INSTANCES", "integer", ".status.ready", "that serve"),
          column("SLO", "string", ".spec.slo.latency", "the latency objective"),
          column("P95-MS", "number", ".status.p95Ms", "of the latency over the last minute"),
          column("RPS", "number", ".status.rate", "requests a second, over the last 5 s"),
          column("POLICY", "string", ".status.policy", "what decides on its instances"),
          column("LAST-DECISION", "string", ".status.lastDecision", "what was decided last", 1),
          column("REASON", "string", ".status.conditions[?(@.type==\"Ready\")].message",
                 "why it serves or not", 1),
          column("URL", "string", ".status.url", "where it answers", 1),
          column("AGE", "date", ".metadata.creationTimestamp", "since it was made")};
}

Schema training_columns() {
  return {column("READY", "string", ".status.conditions[?(@.type==\"Ready\")].status",
                 "whether it runs"),
          column("REASON", "string", ".status.conditions[?(@.type==\"Ready\")].reason",
                 "why, or why not"),
          column("MESSAGE", "string", ".status.conditions[?(@.type==\"Ready\")].message",
                 "the same in a sentence", 1),
          column("AGE", "date", ".metadata.creationTimestamp", "since it was made")};
}

Schema conditions() {
  Schema condition =
      object_schema({{"type", kTextValue},
                     {"status", {{"type", "string"}, {"enum", {"True", "False", "Unknown"}}}},
                     {"reason", kTextValue},
                     {"message", kTextValue},
                     {"lastTransitionTime", {{"type", "string"}, {"format", "date-time"}}},
                     {"observedGeneration", kNumberValue}});
  require(condition, "type");
  require(condition, "status");
  return {{"type", "array"},
          {"items", std::move(condition)},
          {"x-kubernetes-list-type", "map"},
          {"x-kubernetes-list-map-keys", {"type"}}};
}

Schema status() {
  return object_schema(
      {{"observedGeneration", named("of metadata, that the rest is about", kNumberValue)},
       {"newest", named("number of the newest revision", kNumberValue)},
       {"serving", named("number of the revision that serves", kNumberValue)},
       {"replicas", named("instances that there are", kNumberValue)},
       {"ready", named("instances that serve", kNumberValue)},
       {"selector", named("labels of its Pods", kTextValue)},
       {"rate", named("requests a second, over the last 5 s", {{"type", "number"}})},
       {"p95Ms", named("95th percentile of the last minute's latency", {{"type", "number"}})},
       {"policy", named("what decides on its instances", kTextValue)},
       {"model", named("the model's file, or the program", kTextValue)},
       {"url", named("where it answers", kTextValue)},
       {"lastDecision", named("what was decided last", kTextValue)},
       {"message", named("what its owner should know", kTextValue)},
       {"served", named("numbers of the revisions that have served",
                        {{"type", "array"}, {"items", kNumberValue}})},
       {"conditions", conditions()}});
}

Schema object(const Schema& spec, const Schema& status) {
  Schema out = object_schema({{"apiVersion", kTextValue},
                              {"kind", kTextValue},
                              {"metadata", {{"type", "object"}}},
                              {"spec", named("what is wanted", spec)}});
  if (!status.is_null()) out["properties"]["status"] = named("what there is", status);
  require(out, "spec");
  return out;
}

Schema definition(const Names& names, const Schema& schema, Schema subresources, Schema columns) {
  std::string singular(names.kind);
  std::ranges::transform(singular, singular.begin(), [](char c) { return std::tolower(c); });
  Schema all{{"kind", names.kind}, {"plural", names.plural}, {"singular", singular}};
  if (names.short_name != nullptr) {
    all["shortNames"] = {names.short_name};
    all["categories"] = {"sluice"};
  }
  Schema version{{"name", "v1alpha1"},
                 {"served", true},
                 {"storage", true},
                 {"schema", {{"openAPIV3Schema", named(names.meaning, structural(schema))}}}};
  if (!subresources.is_null()) version["subresources"] = std::move(subresources);
  version["additionalPrinterColumns"] = std::move(columns);
  return {{"apiVersion", "apiextensions.k8s.io/v1"},
          {"kind", "CustomResourceDefinition"},
          {"metadata", {{"name", std::string(names.plural) + ".sluice.dev"}}},
          {"spec",
           {{"group", "sluice.dev"},
            {"scope", "Namespaced"},
            {"names", std::move(all)},
            {"versions", Schema::array({std::move(version)})}}}};
}

Schema inference_definition() {
  Schema schema = object(inference_schema(), status());
  schema["properties"]["metadata"]["properties"] = {{"name", name_schema()}};
  return definition({"InferenceFunction", "a model, or a program, that serves in slices of devices",
                     "inferencefunctions", "ifn"},
                    schema,
                    {{"status", Schema::object()},
                     {"scale",
                      {{"specReplicasPath", ".spec.minReplicas"},
                       {"statusReplicasPath", ".status.replicas"},
                       {"labelSelectorPath", ".status.selector"}}}},
                    inference_columns());
}

Schema training_definition() {
  Schema schema = object(training_schema(), status());
  schema["properties"]["metadata"]["properties"] = {{"name", name_schema()}};
  return definition({"TrainingFunction", "a model's training; it is not run on Kubernetes yet",
                     "trainingfunctions", "tfn"},
                    schema, {{"status", Schema::object()}}, training_columns());
}

Schema revision_definition() {
  Schema spec =
      object_schema({{"function", named("the function's name, in this namespace", kTextValue)},
                     {"number", {{"type", "integer"}, {"format", "int64"}, {"minimum", 1}}},
                     {"created", named("milliseconds since 1970", kNumberValue)},
                     {"specification", named("as the platform stores it", kOpaque)}});
  for (const char* key : {"function", "number", "specification"}) require(spec, key);
  return definition({"FunctionRevision", "a revision of a function; the controller writes it",
                     "functionrevisions", nullptr},
                    object(spec, nullptr), nullptr,
                    {column("FUNCTION", "string", ".spec.function", "whose revision"),
                     column("REVISION", "integer", ".spec.number", "its number"),
                     column("AGE", "date", ".metadata.creationTimestamp", "since it was made")});
}

Schema profile_definition() {
  Schema spec =
      object_schema({{"function", named("for which it was measured", kTextValue)},
                     {"model", named("its path at the measurement", kTextValue)},
                     {"deviceType", named("that it was measured on", kTextValue)},
                     {"points", named("how many configurations were measured", kNumberValue)},
                     {"estimated", named("whether it is an estimate", {{"type", "boolean"}})},
                     {"profile", named("what was measured, as the platform stores it", kOpaque)}});
  require(spec, "profile");
  return definition({"FunctionProfile", "measurements of a model on a type of devices",
                     "functionprofiles", nullptr},
                    object(spec, nullptr), nullptr,
                    {column("FUNCTION", "string", ".spec.function", "for which it was measured"),
                     column("MODEL", "string", ".spec.model", "its path at the measurement"),
                     column("TYPE", "string", ".spec.deviceType", "of the device"),
                     column("POINTS", "integer", ".spec.points", "that were measured"),
                     column("ESTIMATED", "boolean", ".spec.estimated", "or measured"),
                     column("AGE", "date", ".metadata.creationTimestamp", "since it was made")});
}

Schema route_definition() {
  Schema spec =
      object_schema({{"version", named("of the table that the route belongs to", kNumberValue)},
                     {"route", named("what a gateway knows of a function", kOpaque)}});
  for (const char* key : {"version", "route"}) require(spec, key);
  return definition(
      {"FunctionRoute", "what a gateway knows of a function; the controller writes it",
       "functionroutes", nullptr},
      object(spec, nullptr), nullptr,
      {column("VERSION", "integer", ".spec.version", "of the table"),
       column("AGE", "date", ".metadata.creationTimestamp", "since it was made")});
}

}  // namespace

Schema structural(const Schema& schema) {
  if (!schema.is_object()) return schema;
  Schema out = schema;
  if (const auto types = schema.find("type"); types != schema.end() && types->is_array())
    lose_types(out, types->get<std::set<std::string>>());
  if (const auto more = out.find("additionalProperties"); more != out.end()) {
    if (more->is_boolean())
      out.erase("additionalProperties");
    else
      out["additionalProperties"] = structural(*more);
  }
  if (out.contains("items")) out["items"] = structural(out["items"]);
  if (out.contains("properties"))
    for (auto& [name, inner] : out["properties"].items()) inner = structural(inner);
  return out;
}

std::vector<Schema> object_definitions() {
  return {inference_definition(), training_definition(), revision_definition(),
          profile_definition(), route_definition()};
}

std::string object_definitions_yaml() {
  std::string out =
      "# The kinds of objects of Sluice, as `sluice kube crds` prints them: do not edit.\n";
  for (const Schema& definition : object_definitions()) out += "---\n" + schema_yaml(definition);
  return out;
}

}  // namespace sluice::control
