// fluid: how far the simulator's fluid mode is from the exact one. Plays scenarios under their
// bundles in both, at their load and at twice that, and prints latencies, violations, slice-seconds
// and the differences. Asserts that both answered most requests.
//
//   bench_fluid [--json FILE]
#include <algorithm>
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

// The mean and the largest difference of a figure over all runs.
struct Difference {
  void add(double by) {
    sum += std::abs(by);
    most = std::max(most, std::abs(by));
    ++runs;
  }
  double sum = 0, most = 0;
  int runs = 0;
};

struct Differences {
  Difference p50, p95, slice_seconds;  // in per cent of the exact figure
  Difference violations;               // in percentage points
  double exact_took = 0, fluid_took = 0;
};

void compare(Report& report, const std::string& name, const sim::Scenario& s,
             const std::string& policy, Differences& all) {
  const Figures exact = play(s, policy, sim::Stepping::kExact);
  const Figures fluid = play(s, policy, sim::Stepping::kFluid);
  const auto relative = [](double value, double to) {
    return to > 0 ? 100 * (value - to) / to : 0;
  };
  all.p50.add(relative(fluid.p50, exact.p50));
  all.p95.add(relative(fluid.p95, exact.p95));
  all.slice_seconds.add(relative(fluid.slice_seconds, exact.slice_seconds));
  all.violations.add(fluid.violations - exact.violations);
  all.exact_took += exact.took;
  all.fluid_took += fluid.took;
  report.add(Row(name + "p50", fluid.p50, "% of SLO").beside("exact", exact.p50));
  report.add(Row(name + "p95", fluid.p95, "% of SLO").beside("exact", exact.p95));
  report.add(Row(name + "violations", fluid.violations, "%").beside("exact", exact.violations));
  report.add(
      Row(name + "slice-seconds", fluid.slice_seconds, "s").beside("exact", exact.slice_seconds));
  for (const Figures& f : {exact, fluid})
    if (f.answered < 0.5 * f.asked) report.fail(name + "most requests were not answered");
}

void sum_up(Report& report, const std::string& load, const Differences& d) {
  const auto add = [&](const std::string& what, const Difference& of, const char* unit,
                       double goal) {
    report.add(Row(load + what + ", mean difference", of.sum / of.runs, unit)
                   .beside("largest", of.most)
                   .at_most(goal));
  };
  add("p50", d.p50, "%", 5);
  add("p95", d.p95, "%", 5);
  add("slice-seconds", d.slice_seconds, "%", 2);
  add("violations", d.violations, "points", 1);
  report.note(load + std::to_string(d.p50.runs) + " runs took " + std::to_string(d.exact_took) +
              " s exact, " + std::to_string(d.fluid_took) + " s fluid.");
}

}  // namespace
}  // namespace sluice::bench

int main(int argc, char** argv) {
  using namespace sluice;
  using namespace sluice::bench;
  Report report("fluid", argc, argv);
  spdlog::set_level(spdlog::level::off);
  for (const int times : {1, 2}) {
    Differences all;
    const std::string load = "load × " + std::to_string(times) + ": ";
    for (const char* file : {"burst.yaml", "has_gpu.yaml", "fast_gshare.yaml", "dilu.yaml"}) {
      sim::Scenario s = scenario(file);
      for (sim::Load& l : s.loads)
        for (sim::RateStep& step : l.plan) step.rate *= times;
      // Two devices for two functions: under these bundles they are on one.
      if (s.name == "burst") s.policies = {"has-gpu", "fast-gshare", "dilu", "mps-l", "tgs"};
      for (const std::string& policy : s.policies)
        compare(report, load + file + ", " + policy + ": ", s, policy, all);
    }
    sum_up(report, load, all);
  }
  return report.finish();
}
