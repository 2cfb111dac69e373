// simspeed: how long the simulator takes for an hour: 10 devices, 4 functions at 100 requests per
// second each, every permit of every device. Asserts that the hour's requests were answered.
//
//   bench_simspeed [--minutes N] [--json FILE]
#include <chrono>
#include <string>

#include "base/check.h"
#include "base/log.h"
#include "bench/report.h"
#include "sim/run.h"

namespace sluice::bench {
namespace {

constexpr int kDevices = 10, kFunctions = 4;
constexpr double kRate = 100;        // requests per second and function
constexpr double kGoalSeconds = 30;  // for an hour

sim::Scenario scenario(int minutes) {
  sim::Scenario s{.name = "simspeed"};
  s.duration = std::chrono::minutes(minutes);
  for (int d = 0; d < kDevices; ++d) {
    const std::string node = "gpu-n" + std::to_string(d);
    s.cluster.devices.push_back({.device = {.id = node + "/0",
                                            .node = node,
                                            .model = "gpu",
                                            .memory = Bytes{16} << 30,
                                            .sm_quantum = {50}},
                                 .physics = {}});
  }
  s.cluster.cold_starts = {Seconds(5)};
  for (int f = 0; f < kFunctions; ++f) {
    FunctionSpec spec{.name = {.name = "f" + std::to_string(f)}};
    spec.inference().model.path = spec.name.name + ".pt";
    spec.inference().slo.latency = Millis(80);
    spec.inference().batching.max_size = 4;
    control::Profile p{.model = spec.inference().model.path,
                       .device = type_of(s.cluster.devices[0].device),
                       .memory = Bytes{1} << 30};
    for (const int batch : {1, 2, 4})
      for (const int sm : {100, 250, 500, 1000}) {
        const double takes = 0.006 * (0.4 + 0.6 * batch) / std::min(1.0, sm / 500.0);
        p.points.push_back(
            {{batch, {sm}, kWhole}, from_seconds(takes), from_seconds(takes), batch / takes});
      }
    s.loads.push_back({.function = spec.name, .plan = {{s.duration, kRate}}});
    s.profiles.push_back(std::move(p));
    s.functions.push_back(std::move(spec));
  }
  return s;
}

}  // namespace
}  // namespace sluice::bench

int main(int argc, char** argv) {
  using namespace sluice;
  using namespace sluice::bench;
  Report report("simspeed", argc, argv);
  spdlog::set_level(spdlog::level::off);
  const int minutes = int_argument(argc, argv, "--minutes", 60);
  const sim::Scenario s = scenario(minutes);
  for (const char* policy : {"has-gpu", "fast-gshare", "dilu", "kpa"}) {
    const auto begin = std::chrono::steady_clock::now();
    const auto outcome = sim::simulate(s, policy);
    const double took =
        std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
    SLUICE_CHECK(outcome.ok(), outcome.error().message);
    uint64_t answered = 0;
    for (const sim::FunctionOutcome& f : outcome->functions) answered += f.ok;
    report.add(Row(std::string(policy) + ": 10 devices, 4 × 100/s, " + std::to_string(minutes) +
                       " minutes",
                   took, "s")
                   .beside("simulated, s", seconds(s.duration))
                   .at_most(kGoalSeconds * minutes / 60));
    const double asked = kFunctions * kRate * seconds(s.duration);
    if (static_cast<double>(answered) < 0.9 * asked)
      report.fail(std::string(policy) + " answered " + std::to_string(answered) + " of " +
                  std::to_string(static_cast<int64_t>(asked)));
    report.note(std::string(policy) + ": " + std::to_string(answered) + " answers, " +
                std::to_string(outcome->arbiter_steps) + " steps of arbiters.");
  }
  return report.finish();
}
