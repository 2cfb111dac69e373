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

json to_json(const JobOutcome& j, Nanos end) {
  json out = {{"job", to_string(j.job)},
              {"arrived_s", seconds(j.arrived)},
              {"began_s", nullptr},
              {"finished_s", nullptr},
              {"completion_s", nullptr},
              {"queueing_s", seconds(j.began.value_or(end) - j.arrived)},
              {"samples", j.samples},
              {"goodput", goodput_of(j, end)},
              {"workers_mean", j.workers_mean},
              {"workers_max", j.workers_max},
              {"reforms", j.reforms},
              {"starts", j.account.starts},
              {"stops", j.account.stops},
              {"slice_seconds", j.account.slice_seconds},
              {"used_seconds", j.account.used_seconds},
              {"cost", j.account.cost}};
  if (j.began) out["began_s"] = seconds(*j.began);
  if (j.finished) out["finished_s"] = seconds(*j.finished);
  if (j.finished) out["completion_s"] = seconds(j.completion_time());
  return out;
}

json to_json(const JobsOutcome& all) {
  return {{"arrived", all.arrived},
          {"finished", all.finished},
          {"completion_mean_s", seconds(all.completion_mean)},
          {"completion_p95_s", seconds(all.completion_p95)},
          {"queueing_mean_s", seconds(all.queueing_mean)},
          {"makespan_s", seconds(all.makespan)},
          {"goodput_mean", all.goodput},
          {"workers_mean", all.workers_mean},
          {"reforms", all.reforms}};
}

}  // namespace

json to_json(const Scenario& s, std::span<const Outcome> outcomes) {
  json policies = json::array();
  for (const Outcome& o : outcomes) {
    json functions = json::array();
    for (const FunctionOutcome& f : o.functions) functions.push_back(to_json(s, f));
    json jobs = json::array();
    for (const JobOutcome& j : o.jobs) jobs.push_back(to_json(j, o.lasted));
    const double lasted = seconds(o.simulated);
    policies.push_back({{"policy", o.policy},
                        {"stopped", o.stopped},
                        {"counted_s", lasted},
                        {"functions", functions},
                        {"jobs", jobs},
                        {"all_jobs", to_json(o.all_jobs)},
                        {"device_seconds", o.device_seconds},
                        {"devices_mean", lasted > 0 ? o.device_seconds / lasted : 0},
                        {"devices_max", o.devices_max},
                        {"free_share", o.free_share},
                        {"free_memory", o.free_memory},
                        {"utilisation", o.utilisation},
                        {"decisions", o.decisions},
                        {"arbiter_steps", o.arbiter_steps}});
  }
  return {{"scenario", s.name},
          {"seed", s.seed},
          {"stepping", to_string(s.cluster.stepping)},
          {"policies", policies}};
}

}  // namespace sluice::sim
