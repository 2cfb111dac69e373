#include "wire/json/function_json.h"

#include <gtest/gtest.h>

namespace sluice::wire {
namespace {

using nlohmann::json;

FunctionSpec inference() {
  FunctionSpec f{.name = {"vision", "resnet"},
                 .priority = 3,
                 .memory = 1 << 20,
                 .policy = "has-gpu",
                 .policy_settings = {{"alpha", "0.8"}},
                 .slice = Slice{.sm = {500}, .quota = {{200}, {400}}, .memory = 1 << 20}};
  f.kind = InferenceSpec{.model = {.path = "/m.pt",
                                   .content = "c0ffee",
                                   .inputs = {{"x", "FP32", {-1, 3}}},
                                   .outputs = {{"y", "FP32", {-1}}}},
                         .slo = {.latency = Millis(80), .percentile = 99},
                         .min_replicas = 0,
                         .max_replicas = 5,
                         .container_concurrency = 2,
                         .scale_target = 4,
                         .scale_to_zero_after = Seconds(90),
                         .max_queue = 7,
                         .admit_all = true,
                         .timeout = Seconds(9),
                         .batching = {.max_size = 8, .max_delay = Millis(2)},
                         .canary_traffic_percent = 10,
                         .token = "secret"};
  return f;
}

FunctionSpec training() {
  FunctionSpec f{.name = {"vision", "vgg"}, .priority = 1, .policy = "fapes"};
  f.kind = TrainingSpec{.model = {.path = "/vgg.pt"},
                        .dataset = "/data/flowers",
                        .epochs = 90,
                        .min_workers = 2,
                        .max_workers = 16,
                        .batch = {.least = 64, .most = 4096, .most_local = 256},
                        .learning_rate = 0.1};
  return f;
}

// Stores hold this text: one that this program cannot read needs a migration.
constexpr const char* kStored =
    R"({"admit_all":true,"batching":{"max_delay_us":2000,"max_size":8},"canary_traffic_percent":10,)"
    R"("container_concurrency":2,"device_types":[],"kind":"inference","max_queue":7,)"
    R"("max_replicas":5,"memory":1048576,)"
    R"("min_replicas":0,"model":{"content":"c0ffee","format":"torchscript",)"
    R"("inputs":[{"datatype":"FP32","name":"x","shape":[-1,3]}],)"
    R"("outputs":[{"datatype":"FP32","name":"y","shape":[-1]}],"path":"/m.pt"},)"
    R"("name":"vision/resnet","policy":"has-gpu","policy_settings":{"alpha":"0.8"},"priority":3,)"
    R"("scale_target":4,"scale_to_zero_after_ms":90000,)"
    R"("slice":{"limit":400,"memory":1048576,"request":200,"slo_us":0,"sm":500,"tolerance":0},)"
    R"("slo_percentile":99.0,"slo_us":80000,"timeout_ms":9000,"token":"secret"})";

// One that a later version stored must not be started as another kind.
TEST(FunctionJson, AKindOfServerThatIsNotHereIsNamed) {
  json stored = json::parse(kStored);
  stored["model"]["format"] = "onnx";
  const auto read = function_spec_from(stored);
  ASSERT_FALSE(read.ok());
  EXPECT_EQ(read.error().message,
            "function.model: model.format: \"onnx\" is not served: torchscript is");
}

TEST(FunctionJson, AProgramHasItsFieldsAndReadsBack) {
  FunctionSpec f;
  f.name.name = "f";
  ModelSpec& model = f.inference().model;
  model.format = "program";
  model.path = "/bin/server";
  model.program = {.command = {"/bin/server", "$(PORT)"},
                   .args = {"-v"},
                   .env = {{"A", {.text = "b"}}, {"KEY", {.secret = "api-key"}}},
                   .files = {"/srv/app/"},
                   .imports = {"torch"},
                   .port = 9000,
                   .port_env = "LISTEN",
                   .readiness = "/healthz",
                   .metrics = "/metrics",
                   .http = true};
  const json stored = to_json(f);
  const auto read = function_spec_from(stored);
  ASSERT_TRUE(read.ok()) << read.error().message;
  EXPECT_EQ(*read, f) << stored;

  json mixed = stored;
  mixed["model"]["format"] = "torchscript";
  EXPECT_EQ(function_spec_from(mixed).error().message,
            "function.server_command: is a program's, and only a program's");
}

TEST(FunctionJson, AnInferenceFunctionIsTheFlatObjectThatStoresHold) {
  EXPECT_EQ(to_json(inference()).dump(), kStored);
  EXPECT_EQ(*function_spec_from(json::parse(kStored)), inference());
}

TEST(FunctionJson, WhatIsMissingKeepsItsDefault) {
  const FunctionSpec plain{.name = {"default", "f"}};
  EXPECT_EQ(*function_spec_from({{"name", "f"}}), plain);
  EXPECT_EQ(*function_spec_from(to_json(plain)), plain);
}

TEST(FunctionJson, ATrainingFunctionIsReadAsWritten) {
  EXPECT_EQ(*function_spec_from(to_json(training())), training());
  EXPECT_EQ(to_json(training())["kind"], "training");
  FunctionSpec script = training();
  script.kind = TrainingSpec{.command = {"python3", "/train.py"}, .paused = true, .plan = "fifo"};
  EXPECT_EQ(*function_spec_from(to_json(script)), script);
  EXPECT_FALSE(to_json(training()).contains("plan")) << "earlier versions did not have it";
}

TEST(FunctionJson, AFaultNamesTheFieldTheValueAndWhatIsAllowed) {
  const std::tuple<const char*, json, const char*> cases[] = {
      {"kind", "batch", "function.kind: 'batch' is neither inference nor training"},
      {"name", "", "function.name: must not be empty"},
      {"model", nullptr, "function.model: is missing, as is a command"},
      {"device", "gpu", "function.device: 'gpu' is none of cpu, cuda or any"},
      {"device", "cuda", "function.device: 'cuda': a training job runs on cpu"},
      {"epochs", 0, "function.epochs: 0 is no integer from 1 to 1000000"},
      {"max_batch", 32, "function.max_batch: 32 is below min_batch, 64"},
      {"min_workers", 0, "function.min_workers: 0 is no integer from 1 to 10000"},
      {"max_workers", 1, "function.max_workers: 1 is below min_workers, 2"},
      {"learning_rate", -1, "function.learning_rate: -1 is no number from 0.0 to 1000.0"},
  };
  for (const auto& [field, value, fault] : cases) {
    json object = to_json(training());
    object[field] = value;
    const Result<FunctionSpec> spec = function_spec_from(object);
    EXPECT_EQ(spec.ok() ? "" : spec.error().message, fault) << object;
  }
}

}  // namespace
}  // namespace sluice::wire
