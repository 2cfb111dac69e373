#include "control/function_text.h"

#include <yaml-cpp/yaml.h>

#include <map>
#include <sstream>

#include "model/quantity.h"

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

std::map<std::string, std::string> flat_training(const FunctionSpec& s) {
  const TrainingSpec& t = s.training();
  const auto or_default = [](auto n) { return n == 0 ? "the platform's" : std::to_string(n); };
  std::string command;
  for (const std::string& word : t.command) command += (command.empty() ? "" : " ") + word;
  return {
      {"model.path", t.model.path},
      {"model's content", t.model.content.empty() ? "not known" : t.model.content.substr(0, 12)},
      {"command", command.empty() ? "the trainer's" : command},
      {"elastic", t.elastic ? "true" : "false"},
      {"dataset", t.dataset},
      {"length", std::to_string(t.epochs)},
      {"leastDevices", std::to_string(t.min_workers)},
      {"mostDevices", t.max_workers == 0 ? "all" : std::to_string(t.max_workers)},
      {"batchSize.least", or_default(t.batch.least)},
      {"batchSize.most", or_default(t.batch.most)},
      {"batchSize.mostPerWorker", or_default(t.batch.most_local)},
      {"learningRate", or_default(t.learning_rate)},
      {"paused", t.paused ? "true" : "false"},
      {"priority", std::to_string(s.priority)},
      {"memory", format_bytes(s.memory)},
      {"policy", s.policy.empty() ? "the platform's" : s.policy},
      {"policy.settings", described(s.policy_settings)}};
}

// Returns every field as text, by its name in a file.
std::map<std::string, std::string> flat(const FunctionSpec& s) {
  if (!s.is_inference()) return flat_training(s);
  const InferenceSpec& i = s.inference();
  std::map<std::string, std::string> out{
      {"model.path", i.model.path},
      {"model.modelFormat.name", i.model.format},
      {"model.inputs", described(i.model.inputs)},
      {"model.outputs", described(i.model.outputs)},
      {"model's content", i.model.content.empty() ? "not known" : i.model.content.substr(0, 12)},
      {"slo.latency", i.slo.latency == Nanos(0) ? "none" : format_duration(i.slo.latency)},
      {"slo.percentile", std::to_string(i.slo.percentile)},
      {"priority", std::to_string(s.priority)},
      {"minReplicas", std::to_string(i.min_replicas)},
      {"maxReplicas", std::to_string(i.max_replicas)},
      {"containerConcurrency", std::to_string(i.container_concurrency)},
      {"scaleTarget", i.scale_target == 0 ? "the policy's" : std::to_string(i.scale_target)},
      {"scaleToZeroAfter", format_duration(i.scale_to_zero_after)},
      {"maxQueue", std::to_string(i.max_queue)},
      {"admission", i.admit_all ? "all" : "in-time"},
      {"timeout", format_duration(i.timeout)},
      {"batcher.maxBatchSize", std::to_string(i.batching.max_size)},
      {"batcher.maxLatency", std::to_string(i.batching.max_delay.count() / 1000) + "us"},
      {"memory", format_bytes(s.memory)},
      {"policy", s.policy.empty() ? "the platform's" : s.policy},
      {"policy.settings", described(s.policy_settings)},
      {"slice", s.slice ? format_share(s.slice->sm) + " × " + format_share(s.slice->quota.request) +
                              "…" + format_share(s.slice->quota.limit)
                        : "none"},
      {"canaryTrafficPercent", std::to_string(i.canary_traffic_percent)},
      {"token", i.token.empty() ? "none" : "set"}};
  return out;
}

void write_inference(YAML::Emitter& y, const InferenceSpec& i) {
  y << YAML::Key << "model" << YAML::Value << YAML::BeginMap << YAML::Key << "path" << YAML::Value
    << i.model.path;
  write_tensors(y, "inputs", i.model.inputs);
  write_tensors(y, "outputs", i.model.outputs);
  y << YAML::EndMap;
  if (i.slo.latency > Nanos(0))
    y << YAML::Key << "slo" << YAML::Value << YAML::BeginMap << YAML::Key << "latency"
      << YAML::Value << format_duration(i.slo.latency) << YAML::Key << "percentile" << YAML::Value
      << i.slo.percentile << YAML::EndMap;
  y << YAML::Key << "minReplicas" << YAML::Value << i.min_replicas << YAML::Key << "maxReplicas"
    << YAML::Value << i.max_replicas << YAML::Key << "containerConcurrency" << YAML::Value
    << i.container_concurrency << YAML::Key << "maxQueue" << YAML::Value << i.max_queue << YAML::Key
    << "timeout" << YAML::Value << format_duration(i.timeout);
  if (i.scale_target > 0) y << YAML::Key << "scaleTarget" << YAML::Value << i.scale_target;
  if (i.scale_to_zero_after != InferenceSpec{}.scale_to_zero_after)
    y << YAML::Key << "scaleToZeroAfter" << YAML::Value << format_duration(i.scale_to_zero_after);
  if (i.admit_all) y << YAML::Key << "admission" << YAML::Value << "all";
  y << YAML::Key << "batcher" << YAML::Value << YAML::BeginMap << YAML::Key << "maxBatchSize"
    << YAML::Value << i.batching.max_size;
  if (i.batching.max_delay > Nanos(0))
    y << YAML::Key << "maxLatency" << YAML::Value << format_duration(i.batching.max_delay);
  y << YAML::EndMap;
  y << YAML::Key << "canaryTrafficPercent" << YAML::Value << i.canary_traffic_percent;
  if (!i.token.empty()) y << YAML::Key << "token" << YAML::Value << YAML::DoubleQuoted << i.token;
}

void write_training(YAML::Emitter& y, const TrainingSpec& t) {
  const auto write = [&](const char* key, const auto& value) {
    y << YAML::Key << key << YAML::Value << value;
  };
  if (!t.model.path.empty()) {
    y << YAML::Key << "model" << YAML::Value << YAML::BeginMap;
    write("path", t.model.path);
    y << YAML::EndMap;
  }
  if (!t.command.empty()) write("command", t.command);
  if (t.elastic) write("elastic", true);
  if (!t.dataset.empty()) write("dataset", t.dataset);
  write("length", t.epochs);
  write("leastDevices", t.min_workers);
  write("mostDevices", t.max_workers);
  const BatchRange& b = t.batch;
  if (b.least > 0 || b.most > 0 || b.most_local > 0) {
    y << YAML::Key << "batchSize" << YAML::Value << YAML::BeginMap;
    if (b.least > 0) write("least", b.least);
    if (b.most > 0) write("most", b.most);
    if (b.most_local > 0) write("mostPerWorker", b.most_local);
    y << YAML::EndMap;
  }
  if (t.learning_rate > 0) write("learningRate", t.learning_rate);
  if (t.paused) write("paused", true);
}

void write_shared(YAML::Emitter& y, const FunctionSpec& s) {
  y << YAML::Key << "priority" << YAML::Value << s.priority;
  if (s.memory > 0) y << YAML::Key << "memory" << YAML::Value << format_bytes(s.memory);
  if (!s.policy_settings.empty())
    y << YAML::Key << "policy" << YAML::Value << YAML::BeginMap << YAML::Key << "name"
      << YAML::Value << s.policy << YAML::Key << "settings" << YAML::Value << s.policy_settings
      << YAML::EndMap;
  else if (!s.policy.empty())
    y << YAML::Key << "policy" << YAML::Value << s.policy;
  if (s.slice) {
    y << YAML::Key << "slice" << YAML::Value << YAML::BeginMap << YAML::Key << "sm" << YAML::Value
      << format_share(s.slice->sm);
    y << YAML::Key << "quota" << YAML::Value << YAML::BeginMap << YAML::Key << "request"
      << YAML::Value << format_share(s.slice->quota.request) << YAML::Key << "limit" << YAML::Value
      << format_share(s.slice->quota.limit) << YAML::EndMap;
    if (s.slice->memory > 0)
      y << YAML::Key << "memory" << YAML::Value << format_bytes(s.slice->memory);
    y << YAML::EndMap;
  }
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
  if (s.is_inference())
    write_inference(y, s.inference());
  else
    write_training(y, s.training());
  write_shared(y, s);
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
