#include "sim/report.h"

namespace sluice::sim {
namespace {

using nlohmann::json;

json to_json(const Scenario& s, const FunctionOutcome& f) {
  json violations = json::array();
  for (size_t k = 0; k < f.violations.size(); ++k)
    violations.push_back({{"multiple", s.slo_multiples[k]}, {"count", f.violations[k]}});
  return {{"function", to_string(f.function)},
          {"objective_us", f.objective.count() / 1000},
          {"requests", f.requests},
          {"ok", f.ok},
          {"shed", f.shed},
          {"failed", f.failed},
          {"timed_out", f.timed_out},
          {"open", f.open},
          {"violations", violations},
          {"cold_starts", f.cold_starts},
          {"p50_us", f.p50.count() / 1000},
          {"p90_us", f.p90.count() / 1000},
          {"p95_us", f.p95.count() / 1000},
          {"p99_us", f.p99.count() / 1000},
          {"starts", f.account.starts},
          {"stops", f.account.stops},
          {"resizes", f.account.resizes},
          {"slice_seconds", f.account.slice_seconds},
          {"used_seconds", f.account.used_seconds},
          {"cost", f.account.cost},
          {"cost_per_1000", f.account.per_thousand(f.ok)}};
}

}  // namespace

json to_json(const Scenario& s, std::span<const Outcome> outcomes) {
  json policies = json::array();
  for (const Outcome& o : outcomes) {
    json functions = json::array();
    for (const FunctionOutcome& f : o.functions) functions.push_back(to_json(s, f));
    const double lasted = seconds(o.simulated);
    policies.push_back({{"policy", o.policy},
                        {"stopped", o.stopped},
                        {"counted_s", lasted},
                        {"functions", functions},
                        {"device_seconds", o.device_seconds},
                        {"devices_mean", lasted > 0 ? o.device_seconds / lasted : 0},
                        {"devices_max", o.devices_max},
                        {"free_share", o.free_share},
                        {"free_memory", o.free_memory},
                        {"decisions", o.decisions},
                        {"arbiter_steps", o.arbiter_steps}});
  }
  return {{"scenario", s.name},
          {"seed", s.seed},
          {"stepping", to_string(s.cluster.stepping)},
          {"policies", policies}};
}

}  // namespace sluice::sim
