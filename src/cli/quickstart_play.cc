// One play of the main job: a platform of its own, the models measured and deployed, the trace
// played, and the results.
#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <thread>

#include "cli/listing.h"
#include "cli/load_report.h"
#include "cli/payload.h"
#include "cli/profile_room.h"
#include "cli/profile_run.h"
#include "cli/quickstart.h"
#include "cli/quickstart_platform.h"
#include "cli/slices_view.h"
#include "cli/table.h"
#include "control/local/model_check.h"
#include "control/profiles.h"
#include "control/spec/function_text.h"
#include "sim/rate_file.h"

namespace sluice::cli {
namespace {

using nlohmann::json;
using wire::http::verb;

// The objective: five times the model alone on a whole device, plus 30 ms for the network path.
Nanos objective(const control::Profile& p) {
  Nanos alone = std::chrono::hours(1);
  for (const auto& point : p.points)
    if (point.at.batch == 1 && point.at.quota == kWhole && point.at.sm == kWhole)
      alone = point.median;
  const int64_t ms = (alone * 5 + Millis(30)).count() / 1'000'000;
  return Millis((ms + 9) / 10 * 10);
}

double whole_device_rate(const control::Profile& p) {
  for (const auto& point : p.points)
    if (point.at.batch == 1 && point.at.quota == kWhole && point.at.sm == kWhole)
      return point.throughput;
  return 0;
}

Result<Plan> measured(const Session& session, const std::string& model, const QuickstartFlags& f,
                      size_t devices) {
  FunctionSpec spec;
  InferenceSpec& inference = spec.inference();
  const std::string name = function_of(model);
  spec.name = {.name = name};
  inference.model.path = f.models + "/" + model + ".pt";
  SLUICE_TRY(control::check_model(inference.model));
  std::cout << "  " << name << " " << std::flush;
  const Sweep sweep{
      .batches = {1, 2, 4}, .quotas = {{1000}, {500}, {200}}, .per_point = Millis(400)};
  SLUICE_ASSIGN(state, session.node().json(verb::get, "/v1/state"));
  SLUICE_ASSIGN(rooms, rooms_to_measure(state, spec));
  SLUICE_ASSIGN(profile, profile_model(session.run("node.sock"), rooms.front(), spec, sweep,
                                       [](const auto&) { std::cout << "." << std::flush; }));
  json body = control::to_json(profile);
  inference.slo = {.latency = objective(profile), .percentile = 95};
  inference.batching = {.max_size = 4, .max_delay = Millis(2)};
  inference.timeout = Seconds(20);
  const size_t played = f.only.empty() ? std::size(kQuickstartModels) : f.only.size();
  const double rate = f.level * static_cast<double>(devices) / static_cast<double>(played) *
                      whole_device_rate(profile);
  std::cout << " " << fixed(whole_device_rate(profile), 1) << "/s on a whole device, "
            << bytes(profile.memory) << "; objective p95 <= " << millis(inference.slo.latency)
            << " ms, load " << fixed(rate, 1) << "/s\n";
  return Plan{spec, rate, body};
}

// `fixed`: the slice in the flags, by default half a device, in as many instances as needed.
FunctionSpec with_fixed_slice(FunctionSpec spec, const QuickstartFlags& f) {
  const auto stated = f.slices.find(spec.name.name);
  const int permille = stated == f.slices.end() ? 500 : stated->second;
  spec.inference().min_replicas = (permille + kWhole.permille - 1) / kWhole.permille;
  const Share each{permille / spec.inference().min_replicas};
  spec.slice = Slice{.sm = kWhole, .quota = {each, f.borrow ? kWhole : each}};
  return spec;
}

std::vector<LoadTarget> targets_of(const std::vector<Plan>& plans, const RatePlan& trace,
                                   const QuickstartFlags& f) {
  std::vector<LoadTarget> targets;
  for (const Plan& p : plans) {
    json inputs = json::array();
    for (const TensorSpec& t : p.spec.inference().model.inputs)
      inputs.push_back({{"name", t.name}, {"datatype", t.datatype}, {"shape", t.shape}});
    const auto payload = make_payload(inputs, 1, 3);
    // The same trace for each, offset by a third of it, so that their bursts do not coincide.
    RatePlan plan(
        trace.begin() + static_cast<ptrdiff_t>(trace.size() * targets.size() / plans.size()),
        trace.end());
    plan.insert(
        plan.end(), trace.begin(),
        trace.begin() + static_cast<ptrdiff_t>(trace.size() * targets.size() / plans.size()));
    for (RateStep& s : plan) s.rate *= p.rate;
    targets.push_back({.name = to_string(p.spec.name),
                       .path = "/v2/models/" + p.spec.name.name + "/infer",
                       .body = payload->body,
                       .content_type = "application/octet-stream",
                       .json_bytes = payload->json_bytes,
                       .plan = fit_to(plan, from_seconds(f.seconds)),
                       .seed = f.seed * 100 + targets.size(),
                       .slo = p.spec.inference().slo.latency});
  }
  return targets;
}

// The loop counts the last answers at one of its next ticks. It never counts requests that did not
// reach the gateway.
void wait_until_counted(const Session& session, const std::vector<LoadResult>& results) {
  const auto counted = [&]() -> Result<bool> {
    SLUICE_ASSIGN(report, session.api(verb::get, "/v1/report"));
    return std::ranges::all_of(results, [&](const LoadResult& r) {
      return std::ranges::any_of(report["functions"], [&](const json& f) {
        return f["name"] == r.name && f["ok"].get<uint64_t>() >= r.ok;
      });
    });
  };
  (void)wait_for(counted, Seconds(5), "the last answers to be counted");
}

// Joins the load's view of requests with the platform's of slices and cost.
json joined(const Session& session, const std::vector<LoadResult>& results,
            const std::vector<Plan>& plans, const QuickstartFlags& f) {
  json out{{"policy", f.policy + (f.borrow ? " borrowing" : "")},
           {"seconds", f.seconds},
           {"seed", f.seed},
           {"functions", json::array()}};
  if (const auto devices = session.api(verb::get, "/v1/devices"); devices.ok() && !devices->empty())
    out["price_per_hour"] = devices->front()["price_per_hour"];
  const auto report = session.api(verb::get, "/v1/report");
  const json rows = report_of(results);
  for (size_t i = 0; i < results.size(); ++i) {
    json row = rows[i];
    row["slo_ms"] = millis(plans[i].spec.inference().slo.latency);
    if (report.ok())
      for (const json& r : (*report)["functions"])
        if (r["name"] == results[i].name) {
          for (const char* key : {"cold_starts", "resizes", "starts", "stops", "slice_seconds",
                                  "used_seconds", "cost"})
            row[key] = r[key];
          row["cost_per_1k"] = results[i].ok == 0 ? 0.0
                                                  : r["cost"].get<double>() * 1000 /
                                                        static_cast<double>(results[i].ok);
        }
    out["functions"].push_back(row);
  }
  return out;
}

// The live view, every ten seconds.
LoadProgress live_view(const Session& session) {
  return [&session, shown = -1](Nanos since, const auto&) mutable {
    if (seconds(since) < 0 || static_cast<int>(seconds(since)) / 10 == shown) return;
    shown = static_cast<int>(seconds(since)) / 10;
    const auto functions = session.api(verb::get, "/v1/functions");
    const auto devices = session.api(verb::get, "/v1/devices");
    const auto instances = session.api(verb::get, "/v1/instances");
    if (functions.ok() && devices.ok() && instances.ok())
      std::cout << fixed(seconds(since), 0) << " s\n"
                << functions_table(*functions) << "\n"
                << slices_view(*devices, *instances) << "\n"
                << std::flush;
  };
}

void print_last_decisions(const Session& session) {
  const auto decisions = session.api(verb::get, "/v1/decisions?limit=6");
  if (!decisions.ok()) return;
  std::cout << "\nthe last decisions:\n";
  for (const json& d : *decisions)
    std::cout << "  " << d["action"].get<std::string>() << " " << d["subject"].get<std::string>()
              << ": " << d["reason"]["text"].get<std::string>() << "\n";
}

}  // namespace

std::string function_of(std::string model) {
  std::ranges::replace(model, '_', '-');
  return model;
}

Result<void> deploy(const Session& session, const std::vector<Plan>& plans,
                    const QuickstartFlags& f) {
  std::string file;
  for (const Plan& p : plans) {
    const auto put = session.api(verb::put, "/v1/profiles", p.profile);
    if (!put.ok()) return put.error();
    file += "---\n" + control::to_yaml(f.policy == "fixed" ? with_fixed_slice(p.spec, f) : p.spec);
  }
  SLUICE_ASSIGN(answer, session.api_raw(verb::post, "/v1/functions?file=quickstart", file,
                                        "application/yaml"));
  if (answer.result_int() != 200) return Error{ErrorKind::kInvalid, answer.body()};
  return wait_for(
      [&]() -> Result<bool> {
        SLUICE_ASSIGN(functions, session.api(verb::get, "/v1/functions"));
        return std::ranges::all_of(functions, [](const json& r) { return r["ready"].get<bool>(); });
      },
      Seconds(180), "functions to be ready");
}

Result<json> play(const Session& session, const QuickstartFlags& f, std::vector<Plan>& plans) {
  SLUICE_ASSIGN(trace_text, read_file(f.trace));
  const auto trace = sim::parse_rates(trace_text);
  if (!trace.ok()) return within(f.trace, trace.error());
  std::cout << "starting the platform (policy " << f.policy << ", data in " << session.data
            << ")\n";
  SLUICE_ASSIGN(platform, QuickstartPlatform::start(session, f.policy));
  SLUICE_ASSIGN(devices, platform.devices(session));
  if (plans.empty()) {
    std::cout << devices << " CPU devices; measuring the models (batch x quota):\n";
    for (const char* model : kQuickstartModels) {
      if (!f.only.empty() && std::ranges::find(f.only, function_of(model)) == f.only.end())
        continue;
      SLUICE_ASSIGN(plan, measured(session, model, f, devices));
      plans.push_back(std::move(plan));
    }
  }
  std::cout << "deploying\n";
  if (f.serves) SLUICE_TRY(deploy(session, plans, f));
  if (f.trains) SLUICE_TRY(deploy_job(session, f));
  const JobMeter job(session);
  std::vector<LoadResult> results;
  if (f.serves) {
    std::cout << "playing " << f.trace << " for " << fixed(f.seconds, 0) << " s\n\n";
    SLUICE_ASSIGN(server, session.gateway());
    results = run_load(targets_of(plans, *trace, f), {.server = server}, live_view(session));
    wait_until_counted(session, results);
  } else {
    std::this_thread::sleep_for(from_seconds(f.seconds));
  }
  json report = joined(session, results, plans, f);
  if (f.trains) {
    SLUICE_ASSIGN(trained, job.read());
    report["job"] = std::move(trained);
  }
  print_last_decisions(session);
  if (f.keep) platform.leave();
  return report;
}

Result<void> nothing_failed(const json& report) {
  std::string faults;
  for (const json& r : report["functions"]) {
    const uint64_t failed = r["failed"], ok = r["ok"];
    if (failed == 0 && ok > 0) continue;
    faults += (faults.empty() ? "" : "; ") + r["name"].get<std::string>() + ": " +
              std::to_string(failed) + " of " + r["requests"].dump() + " failed";
    if (const auto& first = r["faults"]; !first.empty())
      faults += " (" + first[0].get<std::string>() + ")";
  }
  if (!faults.empty()) return Error{ErrorKind::kInternal, faults};
  return {};
}

}  // namespace sluice::cli
