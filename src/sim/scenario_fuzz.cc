// Any bytes are either a scenario within its bounds, or an error with a message.
#include <cstdint>
#include <cstdlib>

#include "sim/scenario_file.h"

namespace {

using namespace sluice;

void check(bool holds) {
  if (!holds) std::abort();
}

void check(const sim::Scenario& s) {
  check(s.duration > Nanos(0) && s.settle < s.duration);
  check(!s.functions.empty() || !s.jobs.empty());
  for (const sim::ScenarioJob& job : s.jobs) {
    const BatchRange& batch = job.spec.training().batch;
    check(batch.least >= 1 && batch.most >= batch.least && job.spec.training().epochs >= 1);
    check(job.arrives >= Nanos(0) && job.model.samples >= 1 && !job.spec.name.name.empty());
    check(step_seconds(job.model.step, {}, 1) > 0);
  }
  check(!s.cluster.devices.empty() && !s.cluster.cold_starts.empty());
  for (const sim::DevicePlan& d : s.cluster.devices)
    check(d.device.memory > 0 && d.device.sm_quantum > kNone &&
          (!d.physics.gpu || d.physics.gpu->slice > Nanos(0)));
  for (const auto& [name, truth] : s.cluster.truths) check(truth.host < kWhole);
  for (const sim::Load& load : s.loads)
    for (const sim::RateStep& step : load.plan)
      check(step.rate >= 0 && step.rate <= 1e6 && step.duration > Nanos(0));
  for (const sim::Fault& f : s.faults)
    check(!f.subject.empty() && f.at >= Nanos(0) && f.lasts >= Nanos(0) && f.times > 0);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const auto scenario =
      sim::parse_scenario({reinterpret_cast<const char*>(data), size}, "fuzz.yaml", "/nowhere");
  if (scenario.ok())
    check(*scenario);
  else
    check(!scenario.error().message.empty());
  return 0;
}
