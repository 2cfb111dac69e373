#include "runtime/model_documents.h"

#include <cstdlib>

#include "runtime/batch.h"
#include "wire/json/json.h"

namespace sluice::runtime {
namespace {

using nlohmann::json;

json tensors(const std::vector<TensorSpec>& specs) {
  json list = json::array();
  for (const TensorSpec& s : specs)
    list.push_back({{"name", s.name}, {"datatype", s.datatype}, {"shape", s.shape}});
  return list;
}

// Triton writes dimensions without the batch if a model can be batched. It has no tensor without a
// dimension: a single element is [1], reshaped.
json config_tensors(const std::vector<TensorSpec>& specs, bool without_batch) {
  json list = json::array();
  for (const TensorSpec& s : specs) {
    std::vector<int64_t> dims(s.shape.begin() + (without_batch ? 1 : 0), s.shape.end());
    const bool scalar = dims.empty();
    if (scalar) dims.push_back(1);
    const std::string type = s.datatype == "BYTES" ? "STRING" : s.datatype;
    list.push_back({{"name", s.name}, {"data_type", "TYPE_" + type}, {"dims", dims}});
    if (scalar) list.back()["reshape"] = {{"shape", json::array()}};
  }
  return list;
}

}  // namespace

json server_metadata() {
  return {{"name", "sluice"},
          {"version", SLUICE_VERSION},
          {"extensions",
           {"binary_tensor_data", "model_configuration", "model_repository",
            "model_repository(unload_dependents)", "statistics"}}};
}

json model_metadata(const ServedModel& m, std::vector<std::string> versions) {
  if (versions.empty()) versions.push_back(m.version);
  return {{"name", m.name},
          {"versions", versions},
          {"platform", m.file.platform},
          {"inputs", tensors(m.file.spec.inputs)},
          {"outputs", tensors(m.file.spec.outputs)}};
}

json model_config(const ServedModel& m, const std::vector<std::string>& versions) {
  const bool batched = batchable(m.file.spec);
  json numbers = json::array();
  for (const std::string& v : versions.empty() ? std::vector<std::string>{m.version} : versions)
    numbers.push_back(std::strtoll(v.c_str(), nullptr, 10));
  json config = {{"name", m.name},
                 {"platform", m.file.platform},
                 {"backend", m.file.platform == "pytorch_torchscript" ? "pytorch" : "sluice"},
                 {"version_policy", {{"specific", {{"versions", numbers}}}}},
                 {"max_batch_size", batched ? m.batching.max_size : 0},
                 {"input", config_tensors(m.file.spec.inputs, batched)},
                 {"output", config_tensors(m.file.spec.outputs, batched)},
                 {"instance_group", {{{"name", m.name}, {"count", 1}, {"kind", "KIND_CPU"}}}}};
  if (batched && m.batching.max_size > 1)
    config["dynamic_batching"] = {
        {"preferred_batch_size", {m.batching.max_size}},
        {"max_queue_delay_microseconds", m.batching.max_delay.count() / 1000}};
  return config;
}

json repository_entry(const ServedModel& m, bool ready) {
  return {{"name", m.name},
          {"version", m.version},
          {"state", ready ? "READY" : "UNAVAILABLE"},
          {"reason", ready ? "" : "unloaded"}};
}

}  // namespace sluice::runtime
