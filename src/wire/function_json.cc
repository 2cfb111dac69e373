#include "wire/function_json.h"

#include <limits>

#include "wire/birth_json.h"

namespace sluice::wire {
namespace {

using nlohmann::json;

constexpr int64_t kMostMicros = std::numeric_limits<int64_t>::max() / 1000;
constexpr int kMostReplicas = 10'000;

json fields_of(const InferenceSpec& s) {
  return {{"kind", "inference"},
          {"model", to_json(s.model)},
          {"slo_us", s.slo.latency.count() / 1000},
          {"slo_percentile", s.slo.percentile},
          {"min_replicas", s.min_replicas},
          {"max_replicas", s.max_replicas},
          {"container_concurrency", s.container_concurrency},
          {"scale_target", s.scale_target},
          {"scale_to_zero_after_ms", s.scale_to_zero_after.count() / 1'000'000},
          {"max_queue", s.max_queue},
          {"admit_all", s.admit_all},
          {"timeout_ms", s.timeout.count() / 1'000'000},
          {"batching", to_json(s.batching)},
          {"canary_traffic_percent", s.canary_traffic_percent},
          {"token", s.token}};
}

json fields_of(const TrainingSpec& s) {
  return {{"kind", "training"},
          {"model", to_json(s.model)},
          {"command", s.command},
          {"elastic", s.elastic},
          {"dataset", s.dataset},
          {"epochs", s.epochs},
          {"min_workers", s.min_workers},
          {"max_workers", s.max_workers},
          {"min_batch", s.batch.least},
          {"max_batch", s.batch.most},
          {"max_local_batch", s.batch.most_local},
          {"learning_rate", s.learning_rate},
          {"paused", s.paused}};
}

InferenceSpec read_inference(Fields& f) {
  InferenceSpec s;
  s.model = f.part("model", &model_spec_from);
  s.slo.latency = Micros(f.integer("slo_us", 0, 0, kMostMicros));
  s.slo.percentile = f.number("slo_percentile", 95, 0, 100);
  s.min_replicas = static_cast<int>(f.integer("min_replicas", 1, 0, kMostReplicas));
  s.max_replicas = static_cast<int>(f.integer("max_replicas", 0, 0, kMostReplicas));
  s.container_concurrency = static_cast<int>(f.integer("container_concurrency", 0, 0, 1000));
  s.scale_target = static_cast<int>(f.integer("scale_target", 0, 0, 1000));
  s.scale_to_zero_after = Millis(f.integer("scale_to_zero_after_ms", 60'000, 1000, 86'400'000));
  s.max_queue = static_cast<int>(f.integer("max_queue", 1000, 0, 10'000'000));
  s.admit_all = f.boolean("admit_all", false);
  s.timeout = Millis(f.integer("timeout_ms", 60'000, 1, 86'400'000));
  s.batching = f.part("batching", &batching_from);
  s.canary_traffic_percent = static_cast<int>(f.integer("canary_traffic_percent", 100, 0, 100));
  s.token = f.text("token");
  return s;
}

TrainingSpec read_training(Fields& f) {
  constexpr int kMost = std::numeric_limits<int>::max();
  const auto count = [&](const char* field, int otherwise, int least, int most) {
    return static_cast<int>(f.integer(field, otherwise, least, most));
  };
  TrainingSpec s;
  s.model = f.part("model", &model_spec_from);
  for (const json& word : f.list("command")) {
    if (!word.is_string()) f.fail("command", "must be a list of texts");
    s.command.push_back(word.is_string() ? word.get<std::string>() : "");
  }
  if (s.command.empty() && s.model.path.empty()) f.fail("model", "is missing, as is a command");
  s.dataset = f.text("dataset");
  s.epochs = count("epochs", 1, 1, 1'000'000);
  s.min_workers = count("min_workers", 1, 1, kMostReplicas);
  s.max_workers = count("max_workers", 0, 0, kMostReplicas);
  if (s.max_workers != 0 && s.max_workers < s.min_workers)
    f.fail("max_workers", std::to_string(s.max_workers) + " is below min_workers, " +
                              std::to_string(s.min_workers));
  s.batch.least = count("min_batch", 0, 0, kMost);
  s.batch.most = count("max_batch", 0, 0, kMost);
  s.batch.most_local = count("max_local_batch", 0, 0, kMost);
  if (s.batch.most != 0 && s.batch.most < s.batch.least)
    f.fail("max_batch",
           std::to_string(s.batch.most) + " is below min_batch, " + std::to_string(s.batch.least));
  s.learning_rate = f.number("learning_rate", 0, 0, 1000);
  s.elastic = f.boolean("elastic", false);
  s.paused = f.boolean("paused", false);
  return s;
}

}  // namespace

json to_json(const FunctionSpec& s) {
  json out = std::visit([](const auto& kind) { return fields_of(kind); }, s.kind);
  out.update({{"name", to_string(s.name)},
              {"priority", s.priority},
              {"memory", s.memory},
              {"policy", s.policy},
              {"policy_settings", s.policy_settings}});
  if (s.slice) out["slice"] = to_json(*s.slice);
  return out;
}

Result<FunctionSpec> function_spec_from(const json& j) {
  Fields f(j, "function");
  FunctionSpec s;
  s.name = function_name(f.text("name"));
  if (s.name.name.empty()) f.fail("name", "must not be empty");
  s.priority = static_cast<int>(f.integer("priority", 0, -1'000'000, 1'000'000));
  s.memory = f.integer("memory", 0, 0, Bytes{1} << 60);  // sums do not overflow
  s.policy = f.text("policy");
  if (const json* settings = f.child("policy_settings"); settings != nullptr) {
    if (!settings->is_object()) f.fail("policy_settings", "must be an object");
    for (const auto& [name, text] : settings->items())
      if (text.is_string()) s.policy_settings[name] = text;
  }
  if (f.child("slice") != nullptr) s.slice = f.part("slice", &slice_from);
  if (const std::string kind = f.text("kind", "inference"); kind == "inference")
    s.kind = read_inference(f);
  else if (kind == "training")
    s.kind = read_training(f);
  else
    f.fail("kind", "'" + kind + "' is neither inference nor training");
  return f.finish(std::move(s));
}

}  // namespace sluice::wire
