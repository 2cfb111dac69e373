#include "runtime/model_documents.h"

#include "runtime/batch.h"
#include "wire/json.h"

namespace sluice::runtime {
namespace {

using nlohmann::json;

json tensors(const std::vector<TensorSpec>& specs) {
  json list = json::array();
  for (const TensorSpec& s : specs) list.push_back(wire::to_json(s));
  return list;
}

// Triton writes dimensions without the batch where a model can be batched.
json config_tensors(const std::vector<TensorSpec>& specs, bool without_batch) {
  json list = json::array();
  for (const TensorSpec& s : specs) {
    const json dims(std::vector<int64_t>(s.shape.begin() + (without_batch ? 1 : 0), s.shape.end()));
    const std::string type = s.datatype == "BYTES" ? "STRING" : s.datatype;
    list.push_back({{"name", s.name}, {"data_type", "TYPE_" + type}, {"dims", dims}});
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

json model_metadata(const ServedModel& m) {
  return {{"name", m.name},
          {"versions", {m.version}},
          {"platform", m.file.platform},
          {"inputs", tensors(m.file.spec.inputs)},
          {"outputs", tensors(m.file.spec.outputs)}};
}

json model_config(const ServedModel& m) {
  const bool batched = batchable(m.file.spec);
  json config = {{"name", m.name},
                 {"platform", m.file.platform},
                 {"backend", m.file.platform == "pytorch_torchscript" ? "pytorch" : "sluice"},
                 {"version_policy", {{"specific", {{"versions", {m.version}}}}}},
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
