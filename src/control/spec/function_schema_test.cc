// The schemas accept what the parser accepts, and refuse what they can see to be wrong.
#include "control/spec/function_schema.h"

#include <gmock/gmock.h>

#include <filesystem>
#include <fstream>
#include <sstream>

#include "control/spec/function_file.h"
#include "control/spec/object_definitions.h"
#include "control/spec/yaml_documents.h"
#include "tests/support/schema_check.h"

namespace sluice::control {
namespace {

namespace fs = std::filesystem;
using testing::Contains;
using testing::HasSubstr;
using testing::IsEmpty;

std::string text_of_file(const fs::path& path) {
  std::ifstream in(path);
  return (std::ostringstream() << in.rdbuf()).str();
}

Schema definition_of(const std::string& kind) {
  for (const Schema& d : object_definitions())
    if (d["spec"]["names"]["kind"] == kind) return d;
  throw std::runtime_error("no definition of " + kind);
}

const Schema& schema_of(const std::string& kind) {
  static std::map<std::string, Schema> made;
  if (made.contains(kind)) return made[kind];
  return made[kind] = definition_of(kind)["spec"]["versions"][0]["schema"]["openAPIV3Schema"];
}

// The function files of the examples, the scenarios and the parser's corpus that parse.
std::map<std::string, std::vector<YAML::Node>> valid_files() {
  std::map<std::string, std::vector<YAML::Node>> all;
  const fs::path top(SLUICE_SOURCE);
  for (const char* folder : {"examples", "scenarios", "tests/corpus/function_file"})
    for (const auto& entry : fs::recursive_directory_iterator(top / folder)) {
      if (!entry.is_regular_file()) continue;
      const std::string kind = entry.path().extension();
      if (std::string(folder) != "tests/corpus/function_file" && kind != ".yaml") continue;
      const auto documents = yaml_documents(text_of_file(entry.path()), "f");
      if (!documents.ok()) continue;
      for (const YAML::Node& node : *documents) {
        const std::string of = node.IsMap() ? node["kind"].as<std::string>("") : "";
        if (of == "InferenceFunction" || of == "TrainingFunction")
          all[entry.path()].push_back(node);
      }
    }
  return all;
}

Result<std::vector<FunctionSpec>> parsed(const std::string& text) {
  return parse_functions(text, {.file = "f", .folder = "/here", .home = "/home/ada"});
}

TEST(FunctionSchema, AcceptsEveryFileThatTheParserDoes) {
  size_t count = 0;
  for (const auto& [path, documents] : valid_files())
    for (const YAML::Node& node : documents) {
      const auto spec = parsed(YAML::Dump(node));
      if (!spec.ok()) continue;
      const Schema object = json_of(node);
      EXPECT_THAT(SchemaCheck::problems(schema_of(object["kind"]), object), IsEmpty()) << path;
      EXPECT_THAT(SchemaCheck::problems(file_schema(), object), IsEmpty()) << path;
      ++count;
    }
  EXPECT_GT(count, 25u);
}

// As the controller reads it back from the API server.
TEST(FunctionSchema, AnObjectIsTheFunctionThatItsFileSays) {
  size_t count = 0;
  for (const auto& [path, documents] : valid_files())
    for (const YAML::Node& node : documents) {
      const auto spec = parsed(YAML::Dump(node));
      if (!spec.ok()) continue;
      Schema object = json_of(node);
      fill_defaults(schema_of(object["kind"]), object);
      const auto read = parsed(object.dump());
      ASSERT_TRUE(read.ok()) << path << "\n" << read.error().message;
      EXPECT_EQ(read->front(), spec->front()) << path;
      ++count;
    }
  EXPECT_GT(count, 25u);
}

// An inference function with these fields beside a program, in JSON.
std::vector<std::string> problems_with(const std::string& fields) {
  const Schema object = Schema::parse(
      R"({"apiVersion": "sluice.dev/v1alpha1", "kind": "InferenceFunction",
          "metadata": {"name": "f"}, "spec": {"server": {"command": ["/bin/true"]}, )" +
      fields + "}}");
  return SchemaCheck::problems(schema_of("InferenceFunction"), object);
}

TEST(FunctionSchema, EveryFormOfAValueIsAccepted) {
  for (const char* fields :
       {R"("slice": {"sm": 0.5, "quota": {"request": "20%", "limit": "0.25"}})",
        R"("slice": {"sm": 1, "memory": "1.5Gi"})", R"("memory": 0)", R"("memory": "0")",
        R"("batcher": {"maxLatency": 0})", R"("batcher": {"maxLatency": "1.5ms"})",
        R"("policy": "has-gpu")", R"("policy": {"name": "has-gpu", "settings": {"alpha": 0.8}})",
        R"("policy": {"name": "has-gpu", "settings": {"cooldown": "5s"}})",
        R"("slo": {"latency": "100us", "percentile": 99.9})"})
    EXPECT_THAT(problems_with(fields), IsEmpty()) << fields;
}

TEST(FunctionSchema, WhatIsWrongByItselfIsRefused) {
  const std::pair<const char*, const char*> faults[] = {
      {R"("minReplicas": -1)", "spec.minReplicas: is too small"},
      {R"("minReplicas": 10001)", "spec.minReplicas: is too large"},
      {R"("minReplicas": "2")", "spec.minReplicas: is no integer"},
      {R"("minReplicas": 1.5)", "spec.minReplicas: is no integer"},
      {R"("slo": {"latency": 80})", "spec.slo.latency: is no string"},
      {R"("slo": {"latency": "80"})", "spec.slo.latency: does not match"},
      {R"("slo": {"latency": "80 ms"})", "spec.slo.latency: does not match"},
      {R"("slo": {"percentile": 95})", "spec.slo: lacks \"latency\""},
      {R"("slo": {"latency": "1s", "percentile": 101})", "spec.slo.percentile: is too large"},
      {R"("batcher": {"maxLatency": 2})", "spec.batcher.maxLatency: is too large"},
      {R"("memory": "512MB")", "spec.memory: does not match"},
      {R"("memory": 512)", "spec.memory: is too large"},
      {R"("memory": true)", "spec.memory: is no integer or string"},
      {R"("slice": {"sm": 50})", "spec.slice.sm: is too large"},
      {R"("slice": {"sm": "half"})", "spec.slice.sm: does not match"},
      {R"("slice": {"sm": {"share": 1}})", "spec.slice.sm: is an object"},
      {R"("slice": {"sm": [1]})", "spec.slice.sm: has a wrong number of items"},
      {R"("device": "gpu")", "spec.device: is none of"},
      {R"("admission": "some")", "spec.admission: is none of"},
      {R"("mps": true)", "spec.mps: is no string"},
      {R"("policy": "best")", "spec.policy: does not match"},
      {R"("policy": {"settings": {}})", "spec.policy: lacks \"name\""},
      {R"("gpuCount": 2)", "spec.gpuCount: is too large"},
      {R"("minReplica": 1)", "spec.minReplica: unknown field"},
      {R"("variants": [{"path": "a.pt"}])", "spec.variants[0]: lacks \"deviceType\""},
      {R"("variants": [{"deviceType": "big"}])", "spec.variants[0]: fits 0 of anyOf"},
      {R"("predictor": {"containers": []})", "spec.predictor.containers: has a wrong number"},
      {R"("predictor": {"containers": [{"command": ["/bin/a"], "workingDir": "/srv"}]})",
       "spec.predictor.containers[0].workingDir: unknown field"}};
  for (const auto& [fields, said] : faults)
    EXPECT_THAT(problems_with(fields), Contains(HasSubstr(said))) << fields;
}

TEST(FunctionSchema, AJobsPlanIsOneOfTheTable) {
  Schema object = Schema::parse(R"({"apiVersion": "sluice.dev/v1alpha1",
      "kind": "TrainingFunction", "metadata": {"name": "j"},
      "spec": {"command": ["/bin/true"], "length": 1, "plan": "fifo"}})");
  EXPECT_THAT(SchemaCheck::problems(schema_of("TrainingFunction"), object), IsEmpty());
  object["spec"]["plan"] = "best";
  EXPECT_THAT(SchemaCheck::problems(schema_of("TrainingFunction"), object),
              Contains(HasSubstr("spec.plan: is none of")));
}

TEST(FunctionSchema, AFunctionRunsSomething) {
  const Schema object = Schema::parse(R"({"metadata": {"name": "f"}, "spec": {"minReplicas": 1}})");
  for (const char* kind : {"InferenceFunction", "TrainingFunction"})
    EXPECT_THAT(SchemaCheck::problems(schema_of(kind), object),
                Contains(HasSubstr("spec: fits 0 of anyOf")));
}

TEST(FunctionSchema, ADefaultIsWhatTheParserTakesWithoutTheField) {
  const std::string file =
      "{apiVersion: sluice.dev/v1alpha1, kind: InferenceFunction, metadata: {name: f}, spec: "
      "{server: {command: [/bin/true]}, slo: {latency: 1s}, batcher: {maxLatency: 1ms}}}";
  Schema object = json_of(YAML::Load(file));
  const size_t before = object["spec"].size();
  fill_defaults(schema_of("InferenceFunction"), object);
  EXPECT_GT(object["spec"].size(), before + 4);
  EXPECT_EQ(object["spec"]["minReplicas"], 1);
  EXPECT_FALSE(object["spec"]["batcher"].contains("maxBatchSize")) << "a model's folder states it";
  EXPECT_THAT(SchemaCheck::problems(schema_of("InferenceFunction"), object), IsEmpty());
  EXPECT_EQ(parsed(object.dump())->front(), parsed(file)->front());
}

// ---- definitions ---------------------------------------------------------------------------

// The rules of structural schemas, as far as ours could break them.
void expect_structural(const Schema& s, const std::string& path) {
  const bool open = s.value("x-kubernetes-preserve-unknown-fields", false);
  EXPECT_TRUE(s.value("x-kubernetes-int-or-string", false) || open || s["type"].is_string())
      << path << ": " << s.dump();
  EXPECT_FALSE(s.contains("x-kubernetes-validations")) << path << ": 1.20 ignores it";
  if (s.contains("additionalProperties")) {
    EXPECT_FALSE(s.contains("properties") && !open) << path;
    expect_structural(s["additionalProperties"], path + ".*");
  }
  for (const Schema& choice : s.value("anyOf", Schema::array()))
    EXPECT_EQ(choice.size(), choice.count("required")) << path << ": " << choice.dump();
  if (s.contains("items")) expect_structural(s["items"], path + "[]");
  const Schema properties = s.value("properties", Schema::object());
  for (const auto& [key, inner] : properties.items())
    expect_structural(inner, path.empty() ? key : path + "." + key);
}

TEST(ObjectDefinitions, HaveStructuralSchemas) {
  for (const Schema& d : object_definitions())
    expect_structural(d["spec"]["versions"][0]["schema"]["openAPIV3Schema"], "");
}

TEST(ObjectDefinitions, AreTheFileInDeploy) {
  EXPECT_EQ(text_of_file(SLUICE_SOURCE "/deploy/crds.yaml"), object_definitions_yaml())
      << "build/release/sluice kube crds > deploy/crds.yaml";
}

TEST(ObjectDefinitions, AsYamlAreWhatTheyAreAsJson) {
  const std::vector<YAML::Node> documents = YAML::LoadAll(object_definitions_yaml());
  const std::vector<Schema> definitions = object_definitions();
  ASSERT_EQ(documents.size(), definitions.size());
  for (size_t i = 0; i < documents.size(); ++i) EXPECT_EQ(json_of(documents[i]), definitions[i]);
}

TEST(ObjectDefinitions, AStatusOfTheControllerIsAccepted) {
  const Schema schema = schema_of("InferenceFunction")["properties"]["status"];
  Schema status = Schema::parse(
      R"({"observedGeneration": 2, "newest": 3, "serving": 2, "replicas": 2, "ready": 1,
          "rate": 12.5, "p95Ms": 80, "policy": "has-gpu", "lastDecision": "started", "served": [1, 2],
          "conditions": [{"type": "Ready", "status": "True", "reason": "Serves", "message": "",
            "lastTransitionTime": "2024-01-01T00:00:00Z", "observedGeneration": 2}]})");
  EXPECT_THAT(SchemaCheck::problems(schema, status), IsEmpty());
  status["conditions"][0]["status"] = "yes";
  status["ready"] = "1";
  EXPECT_EQ(SchemaCheck::problems(schema, status).size(), 2u);
}

TEST(ObjectDefinitions, ScaleIsTheLeastNumberOfInstances) {
  const Schema version = definition_of("InferenceFunction")["spec"]["versions"][0];
  EXPECT_EQ(version["subresources"]["scale"]["specReplicasPath"], ".spec.minReplicas");
  EXPECT_FALSE(
      definition_of("TrainingFunction")["spec"]["versions"][0]["subresources"].contains("scale"));
}

}  // namespace
}  // namespace sluice::control
