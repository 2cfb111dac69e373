// simspeed: how long the simulator takes for an hour: of 10 devices and 4 functions at 100 requests
// per second each, every permit of every device; and of scenarios/large.yaml, 4,000 devices as
// fluids. Asserts that the hour's requests were answered.
//
//   bench_simspeed [--minutes N] [--large 0|1|2: also (1) or only (2) the large one] [--json FILE]
#include <chrono>
#include <ctime>
#include <string>

#include "base/check.h"
#include "base/log.h"
#include "bench/report.h"
#include "sim/run.h"
#include "sim/scenario_file.h"
#include "trace/text_file.h"

namespace sluice::bench {
namespace {

constexpr int kDevices = 10, kFunctions = 4;
constexpr double kRate = 100;                                // requests per second and function
constexpr double kGoalSeconds = 30, kLargeGoalSeconds = 60;  // for an hour

sim::Scenario small(int minutes) {
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

sim::Scenario large(int minutes) {
  const std::string folder = SLUICE_SCENARIOS;
  const auto text = trace::read_text(folder + "/large.yaml");
  SLUICE_CHECK(text.ok(), text.error().message);
  auto parsed = sim::parse_scenario(*text, "large.yaml", folder);
  SLUICE_CHECK(parsed.ok(), parsed.error().message);
  parsed->duration = std::chrono::minutes(minutes);
  for (sim::Load& load : parsed->loads) load.plan.front().duration = parsed->duration;
  return *parsed;
}

// CPU time of this process, which has one thread: what else the machine runs does not count.
double cpu_seconds() {
  return static_cast<double>(std::clock()) / CLOCKS_PER_SEC;
}

// How long the loop took, apart from what it asks the simulator: from the end of observing to the
// end of a tick.
class LoopTime {
 public:
  void ended(std::string_view phase) {
    const double now = cpu_seconds();
    if (phase != "observe") spent_ += now - last_;
    last_ = now;
    ticks_ += phase == "observe";
  }
  double spent() const { return spent_; }
  int ticks() const { return ticks_; }

 private:
  double last_ = 0, spent_ = 0;
  int ticks_ = 0;
};

void play(Report& report, const sim::Scenario& s, const std::string& policy,
          const std::string& what, double goal) {
  LoopTime loop;
  sim::Watch watch;
  watch.on_phase = [&](std::string_view phase) { loop.ended(phase); };
  const double begin = cpu_seconds();
  const auto outcome = sim::simulate(s, policy, watch);
  const double took = cpu_seconds() - begin;
  SLUICE_CHECK(outcome.ok(), outcome.error().message);
  double answered = 0, asked = 0;
  for (const sim::FunctionOutcome& f : outcome->functions) {
    answered += static_cast<double>(f.ok);
    asked += static_cast<double>(f.requests);
  }
  const double minutes = seconds(s.duration) / 60;
  report.add(Row(policy + ": " + what, took, "s of CPU")
                 .beside("simulated, s", seconds(s.duration))
                 .at_most(goal * minutes / 60));
  report.add(Row(policy + ": " + what + ", without the loop", took - loop.spent(), "s of CPU")
                 .beside("in the loop, s", loop.spent()));
  if (answered < 0.9 * asked)
    report.fail(policy + " answered " + std::to_string(answered) + " of " + std::to_string(asked));
  report.note(policy + ": " + std::to_string(static_cast<int64_t>(answered)) + " answers, " +
              std::to_string(loop.ticks()) + " ticks, " + std::to_string(outcome->arbiter_steps) +
              " steps of devices.");
}

}  // namespace
}  // namespace sluice::bench

int main(int argc, char** argv) {
  using namespace sluice;
  using namespace sluice::bench;
  Report report("simspeed", argc, argv);
  spdlog::set_level(spdlog::level::off);
  const int minutes = int_argument(argc, argv, "--minutes", 60);
  const int which = int_argument(argc, argv, "--large", 1);
  const std::string lasts = ", " + std::to_string(minutes) + " minutes";
  if (which < 2)
    for (const char* policy : {"has-gpu", "fast-gshare", "dilu", "kpa"})
      play(report, small(minutes), policy, "10 devices, 4 × 100/s" + lasts, kGoalSeconds);
  if (which > 0)
    play(report, large(minutes), "has-gpu", "4,000 devices, 3,200 instances" + lasts,
         kLargeGoalSeconds);
  return report.finish();
}
