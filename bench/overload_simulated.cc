#include "bench/overload_simulated.h"

#include <algorithm>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "base/log.h"
#include "base/random.h"
#include "policy/bundle.h"
#include "sim/run.h"
#include "sim/scenario_file.h"
#include "trace/arrivals.h"

namespace sluice::bench {
namespace {

constexpr double kCapacity = 200;  // requests a second

constexpr const char* kScenario = R"(
apiVersion: sluice.dev/v1alpha1
kind: Scenario
metadata: {name: below-capacity}
spec:
  duration: 240s
  settle: 90s
  coldStart: [2s]
  hop: 200us
  devices: [{type: gpu, count: 4, memory: 16Gi, smQuantum: 10%}]
  truths: [{function: f, variation: 0.1}]
  profiles:
    - model: f.pt
      device: gpu
      memory: 1Gi
      points:
        - {batch: 1, sm: 50%, latency: 160ms}
        - {batch: 4, sm: 50%, latency: 160ms}
        - {batch: 1, sm: 100%, latency: 80ms}
        - {batch: 4, sm: 100%, latency: 80ms}
  loads: [{function: f, rate: 1}]
---
apiVersion: sluice.dev/v1alpha1
kind: InferenceFunction
metadata: {name: f}
spec:
  model: {path: f.pt}
  slo: {latency: 400ms}
  batcher: {maxBatchSize: 4}
  minReplicas: 1
)";

// Returns the gaps of the trace, with mean 1.
Result<std::vector<double>> measured_gaps() {
  SLUICE_ASSIGN(file, trace::ArrivalFile::open(
                          SLUICE_TRACES "/azure_llm_2023/AzureLLMInferenceTrace_conv.csv.gz"));
  std::vector<double> gaps;
  Nanos last{0};
  for (;;) {
    SLUICE_ASSIGN(arrival, file.next());
    if (!arrival) break;
    gaps.push_back(seconds(arrival->at - last));
    last = arrival->at;
  }
  for (double& gap : gaps) gap *= static_cast<double>(gaps.size()) / seconds(last);
  return gaps;
}

// Plays the gaps from a place that the seed chooses, over and over.
std::vector<Nanos> times_of(const std::vector<double>& gaps, double rate, Nanos duration,
                            uint64_t seed) {
  std::vector<Nanos> times;
  double at = 0;
  for (size_t k = Random(seed).below(gaps.size()); from_seconds(at) < duration; ++k) {
    times.push_back(from_seconds(at));
    at += gaps[k % gaps.size()] / rate;
  }
  return times;
}

struct Played {
  double in_time = 0;  // percent of all requests
  double refused = 0;
  uint64_t requests = 0;
  std::set<uint64_t> late;  // numbers of those that were not answered in time
};

Result<Played> play(const sim::Scenario& s, const std::string& bundle) {
  Played p;
  const Nanos objective = s.functions.front().inference().slo.latency;
  sim::Watch watch;
  watch.on_answer = [&](const sim::Answer& a) {
    if (a.outcome != gateway::Outcome::kOk || a.ended - a.arrived > objective)
      p.late.insert(a.number);
  };
  SLUICE_ASSIGN(outcome, sim::simulate(s, bundle, watch));
  const sim::FunctionOutcome& f = outcome.functions.front();
  if (f.requests == 0) return Error{ErrorKind::kInternal, bundle + ": nothing was asked"};
  const auto n = static_cast<double>(f.requests);
  p.requests = f.requests;
  p.in_time = 100 * (n - static_cast<double>(f.violations.front() + f.open)) / n;
  p.refused = 100 * static_cast<double>(f.shed) / n;
  return p;
}

struct Compared {
  Played ours;
  double clairvoyant = 0;
};

Result<Compared> compare(sim::Scenario s, const std::string& bundle) {
  SLUICE_ASSIGN(ours, play(s, bundle));
  s.functions.front().inference().admit_all = true;
  SLUICE_ASSIGN(all, play(s, bundle));
  s.cluster.refused = all.late;
  SLUICE_ASSIGN(chosen, play(s, bundle));
  return Compared{std::move(ours), std::max(all.in_time, chosen.in_time)};
}

}  // namespace

void below_capacity(Report& report, uint64_t seed) {
  spdlog::set_level(spdlog::level::off);
  auto scenario = sim::parse_scenario(kScenario, "overload", ".");
  if (!scenario.ok()) return report.fail(scenario.error().message);
  scenario->seed = seed;
  const auto gaps = measured_gaps();
  if (!gaps.ok()) report.note("No measured gaps: " + gaps.error().message);
  for (const policy::Bundle& bundle : policy::bundles())
    for (const bool measured : {false, true}) {
      if (measured && !gaps.ok()) continue;
      std::optional<Compared> worst;
      int at = 0;
      for (const int percent : {50, 70, 90}) {
        sim::Scenario s = *scenario;
        const double rate = kCapacity * percent / 100;
        if (measured) s.loads.front().times = times_of(*gaps, rate, s.duration, seed);
        for (sim::RateStep& step : s.loads.front().plan) step.rate = rate;
        const auto c = compare(std::move(s), std::string(bundle.name));
        if (!c.ok()) return report.fail(c.error().message);
        if (worst && c->clairvoyant - c->ours.in_time <= worst->clairvoyant - worst->ours.in_time)
          continue;
        worst = *c;
        at = percent;
      }
      Row row(std::string(bundle.name) + ", " + (measured ? "measured" : "Poisson") + " gaps, " +
                  std::to_string(at) + " %: in time",
              worst->ours.in_time, "%");
      row.n = static_cast<int>(worst->ours.requests);
      report.add(row.beside("clairvoyant", worst->clairvoyant).at_least(worst->clairvoyant - 0.5));
    }
}

}  // namespace sluice::bench
