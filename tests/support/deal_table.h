// Nodes with devices and jobs, for tests of planners that deal. Only test code includes this.
//
//   DealTable t({4, 4});                      // two nodes of four devices
//   t.job("a", {.most = 8, .step = step_linear()});
//   EXPECT_THAT(optimus(t.table), ElementsAre(8));
#pragma once

#include <deque>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "policy/plan/deal.h"

namespace sluice::policy {

struct DealtJob {
  int least = 1, most = 0;
  int priority = 0;
  std::optional<StepModel> step = {};  // nothing: it was not measured
  BatchRange batch{.least = 64, .most = 64};
  double noise = 0;
  int64_t samples = 64'000, done = 0;
  Placed now = {};
};

// n workers take 1/n of the time.
inline StepModel step_linear() {
  return {.beta_c = 0.001};
}
// Two workers do less than one.
inline StepModel step_best_alone() {
  return {.alpha_c = 0.05, .beta_c = 0.001, .alpha_r = 0.05, .beta_r = 0.05};
}
// Workers of one node sum quickly, those of several slowly.
inline StepModel step_within_a_node() {
  return {.beta_c = 0.001, .alpha_r = 0.002, .alpha_n = 0.1, .gamma = 1};
}

class DealTable {
 public:
  explicit DealTable(std::vector<int> devices, uint64_t seed = 1) : random_(seed) {
    table.now = Time(Seconds(1000));
    table.devices = std::move(devices);
    table.memory = &memory;
    table.random = &random_;
  }
  DealTable(const DealTable&) = delete;

  // The jobs have to come by priority, and in order of submission. Valid until the next one.
  Contender& job(const std::string& name, const DealtJob& shape) {
    FunctionView& v = views_.emplace_back();
    v.spec.name = {"default", name};
    v.spec.priority = shape.priority;
    v.spec.kind = TrainingSpec{
        .epochs = 10, .min_workers = shape.least, .max_workers = shape.most, .batch = shape.batch};
    v.job = JobView{.submitted = Time(Seconds(static_cast<int>(views_.size()))),
                    .samples = shape.samples,
                    .done = shape.done,
                    .step = shape.step,
                    .noise = shape.noise};
    Job& job = jobs_.emplace_back();
    job.view = &v;
    Contender& c = table.jobs.emplace_back(job, std::min(job.most(), table.all_devices()));
    c.now = shape.now;
    c.most_had = workers_in(shape.now);
    c.age = Seconds(600);
    return c;
  }

  Memory memory;
  Table table;

 private:
  Random random_;
  std::deque<FunctionView> views_;
  std::deque<Job> jobs_;
};

}  // namespace sluice::policy
