// fluid: how far the simulator's fluid mode is from the exact one. Plays scenarios under their
// bundles in both, and prints latencies, violations, slice-seconds and the difference. Asserts that
// both answered most requests.
//
//   bench_fluid [--json FILE]
#include <chrono>
#include <cmath>
#include <string>

#include "base/check.h"
#include "base/log.h"
#include "bench/report.h"
#include "sim/run.h"
#include "sim/scenario_file.h"
#include "trace/text_file.h"

namespace sluice::bench {
namespace {

sim::Scenario scenario(const std::string& name) {
  const std::string folder = SLUICE_SCENARIOS;
  const auto text = trace::read_text(folder + "/" + name);
  SLUICE_CHECK(text.ok(), text.error().message);
  const auto parsed = sim::parse_scenario(*text, name, folder);
  SLUICE_CHECK(parsed.ok(), parsed.error().message);
  return *parsed;
}

// What is compared, over all functions of a run. Latencies as parts of the objective, so that
// functions of different objectives can be averaged.
struct Figures {
  double p50 = 0, p95 = 0;  // mean over functions, in per cent of the objective
  double violations = 0;    // in per cent of the ended requests
  double slice_seconds = 0;
  double answered = 0, asked = 0;
  double took = 0;  // seconds of the real clock
};

Figures play(sim::Scenario s, const std::string& policy, sim::Stepping stepping) {
  s.cluster.stepping = stepping;
  const auto begin = std::chrono::steady_clock::now();
  const auto outcome = sim::simulate(s, policy);
  SLUICE_CHECK(outcome.ok(), outcome.error().message);
  Figures all;
  all.took = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  double violations = 0, ended = 0;
  const auto functions = static_cast<double>(outcome->functions.size());
  for (const sim::FunctionOutcome& f : outcome->functions) {
    all.p50 += 100 * seconds(f.p50) / seconds(f.objective) / functions;
    all.p95 += 100 * seconds(f.p95) / seconds(f.objective) / functions;
    violations += static_cast<double>(f.violations.front());
    ended += static_cast<double>(f.requests - f.open);
    all.slice_seconds += f.account.slice_seconds;
    all.answered += static_cast<double>(f.ok);
    all.asked += static_cast<double>(f.requests);
  }
  all.violations = ended > 0 ? 100 * violations / ended : 0;
  return all;
}

void compare(Report& report, const std::string& file, const sim::Scenario& s,
             const std::string& policy) {
  const Figures exact = play(s, policy, sim::Stepping::kExact);
  const Figures fluid = play(s, policy, sim::Stepping::kFluid);
  const std::string name = file + ", " + policy + ": ";
  report.add(Row(name + "p50", fluid.p50, "% of SLO").beside("exact", exact.p50));
  report.add(Row(name + "p95", fluid.p95, "% of SLO").beside("exact", exact.p95));
  report.add(Row(name + "violations", fluid.violations, "%").beside("exact", exact.violations));
  report.add(
      Row(name + "slice-seconds", fluid.slice_seconds, "s").beside("exact", exact.slice_seconds));
  report.note(name + std::to_string(exact.took) + " s exact, " + std::to_string(fluid.took) +
              " s fluid.");
  for (const Figures& f : {exact, fluid})
    if (f.answered < 0.5 * f.asked) report.fail(name + "most requests were not answered");
}

}  // namespace
}  // namespace sluice::bench

int main(int argc, char** argv) {
  using namespace sluice;
  using namespace sluice::bench;
  Report report("fluid", argc, argv);
  spdlog::set_level(spdlog::level::off);
  const int times = int_argument(argc, argv, "--load", 1);
  for (const char* file : {"burst.yaml", "has_gpu.yaml", "fast_gshare.yaml", "dilu.yaml"}) {
    sim::Scenario s = scenario(file);
    for (sim::Load& load : s.loads)
      for (sim::RateStep& step : load.plan) step.rate *= times;
    for (const std::string& policy : s.policies) compare(report, file, s, policy);
  }
  return report.finish();
}
