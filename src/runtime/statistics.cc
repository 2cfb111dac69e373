#include "runtime/statistics.h"

namespace sluice::runtime {
namespace {

nlohmann::json json_of(const Durations& d) {
  return {{"count", d.count}, {"ns", d.total.count()}};
}

}  // namespace

void Statistics::executed(const Execution& e, UnixMillis now) {
  const std::lock_guard lock(mutex_);
  last_inference_ = now;
  inferences_ += static_cast<uint64_t>(e.inferences);
  ++executions_;
  const auto requests = static_cast<uint64_t>(e.requests);
  input_.add(e.input, requests);
  infer_.add(e.infer, requests);
  output_.add(e.output, requests);
  PerBatch& batch = by_batch_[e.inferences];
  batch.input.add(e.input);
  batch.infer.add(e.infer);
  batch.output.add(e.output);
}

void Statistics::answered(bool ok, Nanos queue, Nanos whole) {
  const std::lock_guard lock(mutex_);
  (ok ? success_ : fail_).add(whole);
  if (ok) queue_.add(queue);
}

nlohmann::json Statistics::json(const std::string& name, const std::string& version) const {
  const std::lock_guard lock(mutex_);
  nlohmann::json batches = nlohmann::json::array();
  for (const auto& [size, b] : by_batch_)
    batches.push_back({{"batch_size", size},
                       {"compute_input", json_of(b.input)},
                       {"compute_infer", json_of(b.infer)},
                       {"compute_output", json_of(b.output)}});
  return {{"name", name},
          {"version", version},
          {"last_inference", last_inference_},
          {"inference_count", inferences_},
          {"execution_count", executions_},
          {"inference_stats",
           {{"success", json_of(success_)},
            {"fail", json_of(fail_)},
            {"queue", json_of(queue_)},
            {"compute_input", json_of(input_)},
            {"compute_infer", json_of(infer_)},
            {"compute_output", json_of(output_)},
            {"cache_hit", json_of({})},
            {"cache_miss", json_of({})}}},
          {"batch_stats", batches},
          {"memory_usage", nlohmann::json::array()}};
}

}  // namespace sluice::runtime
