#include "control/listings.h"

#include <algorithm>
#include <utility>

#include "control/function_file.h"
#include "control/routes.h"
#include "control/summary.h"
#include "wire/json.h"

namespace sluice::control {
namespace {

using nlohmann::json;

constexpr Nanos kShown = Seconds(60);       // listings speak of the last minute
constexpr UnixMillis kEndedShown = 60'000;  // ago: what ended earlier is listed no more

double percent_late(const TrafficTotals& t) {
  const uint64_t ended = t.ok + t.shed + t.failed;
  return ended == 0
             ? 0
             : 100.0 * static_cast<double>(t.late + t.shed + t.failed) / static_cast<double>(ended);
}

// How long ago what is shown of the node was true; 0 while it answers, and if it never has.
UnixMillis node_stale_ms(const Control& control, UnixMillis wall) {
  const Observation& o = control.seen();
  return o.node_there || o.node_seen == 0 ? 0 : std::max<UnixMillis>(wall - o.node_seen, 1);
}

UnixMillis gateway_stale_ms(const Control& control, UnixMillis wall) {
  const Observation& o = control.seen();
  return o.gateway_there || o.gateway_seen == 0 ? 0
                                                : std::max<UnixMillis>(wall - o.gateway_seen, 1);
}

// What a function's instances hold together.
struct Holding {
  int ready = 0, starting = 0, draining = 0;
  int sm = 0, request = 0, limit = 0;  // permille of a device, summed
  Bytes memory = 0;
};

Holding holding_of(const Control& control, const FunctionName& name) {
  Holding h;
  for (const ObservedInstance& o : control.seen().instances) {
    const Instance& i = o.instance;
    if (i.function != name || i.state == InstanceState::kGone || o.foreign) continue;
    h.ready += i.state == InstanceState::kReady;
    h.starting += i.state == InstanceState::kStarting;
    h.draining += i.state == InstanceState::kDraining;
    h.sm += i.slice.sm.permille;
    h.request += i.slice.quota.request.permille;
    h.limit += i.slice.quota.limit.permille;
    h.memory += std::max(i.slice.memory, o.peak_memory);
  }
  return h;
}

// A token leaves the platform with no listing.
std::string file_without_token(FunctionSpec spec) {
  const bool set = !std::exchange(spec.token, "").empty();
  std::string text = to_yaml(spec);
  if (set) text += std::string(text.ends_with("\n") ? "" : "\n") + "# token: set; it is not shown";
  return text;
}

bool newest_ready(const Control& control, const FunctionName& name, const Control::Runtime& r) {
  return std::ranges::any_of(control.seen().instances, [&](const ObservedInstance& o) {
    return o.instance.function == name && o.instance.revision == r.stored.newest &&
           o.instance.state == InstanceState::kReady;
  });
}

// The revisions' parts of the traffic as things stand, in percent.
std::vector<std::pair<int, int>> split_of(const Control& control, const FunctionName& name,
                                          const Control::Runtime& r) {
  return traffic_split(r.stored, newest_ready(control, name, r));
}

}  // namespace

json to_json(const Decision& d) {
  return {{"number", d.number},
          {"at", d.at},
          {"function", d.function.name.empty() ? "" : to_string(d.function)},
          {"action", d.action},
          {"subject", d.subject},
          {"detail", d.detail},
          {"reason", wire::to_json(d.reason)},
          {"summary", summary(d)},
          {"fault", d.fault}};
}

json function_row(const Control& control, const FunctionName& name, UnixMillis wall) {
  const Control::Runtime& r = control.functions().at(name);
  const FunctionSpec& spec = spec_of(r.stored, r.stored.newest);
  const Holding held = holding_of(control, name);
  const Account costs = control.accounting().of(name);
  const TrafficTotals& t = r.traffic.totals();
  json split = json::array();
  for (const auto& [number, percent] : split_of(control, name, r))
    split.push_back({{"revision", number}, {"percent", percent}});
  json out{{"namespace", name.space},
           {"name", name.name},
           {"ready", held.ready > 0},
           {"revision", r.stored.newest},
           {"serving", r.stored.serving},
           {"split", split},
           {"newest_ready", newest_ready(control, name, r)},
           {"canary_percent", spec.canary_traffic_percent},
           {"replicas",
            {{"ready", held.ready},
             {"starting", held.starting},
             {"draining", held.draining},
             {"min", spec.min_replicas},
             {"max", spec.max_replicas}}},
           {"sm", held.sm},
           {"request", held.request},
           {"limit", held.limit},
           {"memory", held.memory},
           {"slo_ms", millis(spec.slo.latency)},
           {"percentile", spec.slo.percentile},
           {"p50_ms", millis(r.traffic.latency(0.50, kShown))},
           {"p95_ms", millis(r.traffic.latency(0.95, kShown))},
           {"p99_ms", millis(r.traffic.latency(0.99, kShown))},
           {"violations_pct", 100 * r.traffic.violations(kShown)},
           {"rps", r.traffic.request_rate(Seconds(5))},
           {"forecast", r.forecast.expected},
           {"queued", r.traffic.queued()},
           {"in_flight", r.traffic.in_flight()},
           {"cold_starts", t.cold_starts},
           {"requests", t.requests},
           {"cost", costs.cost},
           {"cost_per_1k", costs.per_thousand(t.ok)},
           {"slice_seconds", costs.slice_seconds},
           {"used_seconds", costs.used_seconds},
           {"resizes", costs.resizes},
           {"starts", costs.starts},
           {"stops", costs.stops},
           {"policy", spec.policy.empty() ? control.settings().bundle : spec.policy},
           {"unavailable", r.unavailable},
           {"start_failures", control.start_failures(name, r.stored.newest)},
           {"rollout_failed", r.rollout_failed},
           {"model", spec.model.path},
           {"inputs", wire::to_json(spec.model)["inputs"]},
           {"file", file_without_token(spec)},
           {"stale_ms", std::max(node_stale_ms(control, wall), gateway_stale_ms(control, wall))},
           {"age_ms", wall - r.stored.revisions.front().created}};
  out["last_decision"] = r.last_decision ? to_json(*r.last_decision) : json();
  return out;
}

json function_rows(const Control& control, UnixMillis wall) {
  json out = json::array();
  for (const auto& [name, r] : control.functions())
    out.push_back(function_row(control, name, wall));
  return out;
}

json revision_rows(const Control& control, const std::string& of) {
  json out = json::array();
  for (const auto& [name, r] : control.functions()) {
    if (!of.empty() && function_name(of) != name) continue;
    const auto split = split_of(control, name, r);
    for (const Revision& revision : r.stored.revisions) {
      int percent = 0;
      for (const auto& [number, part] : split)
        if (number == revision.number) percent = part;
      out.push_back({{"function", to_string(name)},
                     {"revision", revision.number},
                     {"created", revision.created},
                     {"percent", percent},
                     {"newest", revision.number == r.stored.newest},
                     {"model", revision.spec.model.path},
                     {"content", revision.spec.model.content},
                     {"slo_ms", millis(revision.spec.slo.latency)}});
    }
  }
  return out;
}

json instance_rows(const Control& control, UnixMillis wall) {
  json out = json::array();
  for (const ObservedInstance& o : control.seen().instances) {
    if (!alive(o) && o.ended > 0 && wall - o.ended > kEndedShown) continue;
    json i = wire::to_json(o.instance);
    i.update({{"pid", o.pid},
              {"socket", o.socket},
              {"ready_after_ms", o.ready_after_ms},
              {"start_time", o.start_time},
              {"ended", o.ended},
              {"used_ms", o.used.count() / 1'000'000},
              {"used", control.accounting().used_share(o.instance.id).permille},
              {"ungated_ms", o.ungated.count() / 1'000'000},
              {"peak_memory", o.peak_memory},
              {"device_fault", o.device_fault},
              {"error", o.error},
              {"foreign", o.foreign},
              {"stale_ms", node_stale_ms(control, wall)}});
    if (o.memory_held) i["memory_held"] = *o.memory_held;
    out.push_back(std::move(i));
  }
  return out;
}

json device_rows(const Control& control, UnixMillis wall) {
  json out = json::array();
  for (const Device& d : control.seen().devices) {
    json row = wire::to_json(d);
    row["backstop"] = control.seen().backstop && serves(d);
    if (const auto load = control.seen().loads.find(d.id); load != control.seen().loads.end())
      row.update(
          {{"busy_percent", load->second.busy_percent}, {"memory_used", load->second.memory_used}});
    int64_t reserved = 0;
    Bytes memory = 0;
    int instances = 0;
    for (const ObservedInstance& o : control.seen().instances) {
      if (o.instance.device != d.id || o.instance.state == InstanceState::kGone) continue;
      reserved += area(o.instance.slice);
      memory += o.instance.slice.memory;
      ++instances;
    }
    row.update({{"instances", instances},
                {"reserved", reserved / 1000},
                {"memory_reserved", memory},
                {"stale_ms", node_stale_ms(control, wall)}});
    out.push_back(std::move(row));
  }
  return out;
}

// Since each function was made.
json report(const Control& control) {
  json out = json::array();
  for (const auto& [name, r] : control.functions()) {
    const TrafficTotals& t = r.traffic.totals();
    const Account a = control.accounting().of(name);
    out.push_back({{"name", to_string(name)},
                   {"requests", t.requests},
                   {"ok", t.ok},
                   {"shed", t.shed},
                   {"failed", t.failed},
                   {"p50_ms", millis(t.latency.quantile(0.5))},
                   {"p95_ms", millis(t.latency.quantile(0.95))},
                   {"p99_ms", millis(t.latency.quantile(0.99))},
                   {"slo_ms", millis(spec_of(r.stored, r.stored.newest).slo.latency)},
                   {"violations_pct", percent_late(t)},
                   {"cold_starts", t.cold_starts},
                   {"resizes", a.resizes},
                   {"starts", a.starts},
                   {"stops", a.stops},
                   {"slice_seconds", a.slice_seconds},
                   {"used_seconds", a.used_seconds},
                   {"cost", a.cost},
                   {"cost_per_1k", a.per_thousand(t.ok)}});
  }
  return {{"policy", control.settings().bundle}, {"functions", out}};
}

}  // namespace sluice::control
