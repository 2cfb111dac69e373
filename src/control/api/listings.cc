#include "control/api/listings.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>
#include <utility>
#include <vector>

#include "control/routes.h"
#include "control/spec/function_text.h"
#include "control/summary.h"
#include "wire/json/json.h"

namespace sluice::control {
namespace {

using nlohmann::json;

constexpr Nanos kShown = Seconds(60);       // listings show the last minute
constexpr UnixMillis kEndedShown = 60'000;  // ago: earlier ends are not listed

double percent_late(const TrafficTotals& t) {
  const uint64_t ended = t.ok + t.shed + t.failed;
  return ended == 0
             ? 0
             : 100.0 * static_cast<double>(t.late + t.shed + t.failed) / static_cast<double>(ended);
}

// Returns how old the shown state is; 0 while its source answers, and if it never has.
UnixMillis stale_ms(bool there, UnixMillis seen, UnixMillis wall) {
  return there || seen == 0 ? 0 : std::max<UnixMillis>(wall - seen, 1);
}

UnixMillis node_stale_ms(const Control& control, const std::string& name, UnixMillis wall) {
  const ObservedNode* n = find_node(control.seen(), name);
  return n == nullptr ? 0 : stale_ms(n->node.reachable, n->seen, wall);
}

// For figures summed over all nodes and gateways: the age of the oldest.
UnixMillis oldest_stale_ms(const Control& control, UnixMillis wall) {
  UnixMillis oldest = 0;
  for (const ObservedNode& n : control.seen().nodes)
    oldest = std::max(oldest, stale_ms(n.node.reachable, n.seen, wall));
  for (const ObservedGateway& g : control.seen().gateways)
    oldest = std::max(oldest, stale_ms(g.there, g.seen, wall));
  return oldest;
}

// The sum of a function's instances.
struct Holding {
  int ready = 0, starting = 0, draining = 0;
  int sm = 0, request = 0, limit = 0;  // permille of a device, summed
  Bytes memory = 0;
};

// A function's instances, as observed.
using Instances = std::vector<const ObservedInstance*>;

Instances instances_of(const Control& control, const FunctionName& name) {
  Instances out;
  for (const ObservedInstance& o : control.seen().instances)
    if (o.instance.function == name) out.push_back(&o);
  return out;
}

// For a listing of all functions: instances_of() each of them would take the square of the time.
std::map<FunctionName, Instances> instances_by_function(const Control& control) {
  std::map<FunctionName, Instances> out;
  auto at = out.end();  // neighbours are mostly of one function
  for (const ObservedInstance& o : control.seen().instances) {
    if (at == out.end() || at->first != o.instance.function)
      at = out.try_emplace(o.instance.function).first;
    at->second.push_back(&o);
  }
  return out;
}

Holding holding_of(const Instances& instances) {
  Holding h;
  for (const ObservedInstance* observed : instances) {
    const ObservedInstance& o = *observed;
    const Instance& i = o.instance;
    if (i.state == InstanceState::kGone || o.foreign) continue;
    h.ready += i.state == InstanceState::kReady;
    h.starting += i.state == InstanceState::kStarting;
    h.draining += i.state == InstanceState::kDraining;
    Bytes memory = 0;
    for (const Part& p : i.parts) {
      h.sm += p.slice.sm.permille;
      h.request += p.slice.quota.request.permille;
      h.limit += p.slice.quota.limit.permille;
      memory += p.slice.memory;
    }
    h.memory += std::max(memory, o.peak_memory);
  }
  return h;
}

// No listing shows a token.
std::string file_without_token(FunctionSpec spec) {
  const bool set = spec.is_inference() && !std::exchange(spec.inference().token, "").empty();
  std::string text = to_yaml(spec);
  if (set) text += std::string(text.ends_with("\n") ? "" : "\n") + "# token: set; it is not shown";
  return text;
}

bool newest_ready(const Instances& instances, const FunctionState& r) {
  return std::ranges::any_of(instances, [&](const ObservedInstance* o) {
    return o->instance.revision == r.stored.newest && o->instance.state == InstanceState::kReady;
  });
}

// Returns the revisions' current parts of the traffic, in percent.
std::vector<std::pair<int, int>> split_of(const Instances& instances, const FunctionState& r) {
  return traffic_split(r.stored, newest_ready(instances, r));
}

double slo_ms(const FunctionSpec& spec) {
  return spec.is_inference() ? millis(spec.inference().slo.latency) : 0;
}

json to_json(const train::Reform& r) {
  return {{"why", r.why},
          {"before", r.before},
          {"after", r.after},
          {"stopping_ms", millis(r.stopping)},
          {"forming_ms", millis(r.forming)}};
}

// How a step of the job's model passes. `after_s`: since its submission, when the plan knew it.
json to_json(const train::GroupProfile& p, const train::JobStatus& s, Time submitted) {
  return {{"workers", p.workers.count},
          {"batch", p.batch},
          {"steps", p.steps},
          {"compute_ms", p.step.compute_seconds * 1000},
          {"optimizer_ms", p.step.optimizer_seconds * 1000},
          {"buckets", p.bytes.size()},
          {"bytes", std::llround(std::accumulate(p.bytes.begin(), p.bytes.end(), 0.0))},
          {"all_reduce_ms", train::all_reduce_time(p) * 1000},
          {"overlap", train::overlap_of(p)},
          {"after_s", std::max(0.0, seconds(s.profiled - submitted))},
          {"predicts", s.planned_by_profile}};
}

// A job that has begun waits for devices again once it has none, and is stalled while its workers
// take no step.
std::string_view state_of(const JobView& view, const FunctionState& f, int devices) {
  constexpr std::string_view kPhases[] = {"queued", "running", "paused", "finished", "failed"};
  if (f.job && f.job->files_pending)
    return view.phase == JobPhase::kFinished || devices > 0 ? "running" : "queued";
  if (view.phase == JobPhase::kRunning && devices == 0) return "queued";
  if (view.phase == JobPhase::kRunning && (f.job->stalled || !f.job->waits_for.empty()))
    return "stalled";
  return kPhases[static_cast<size_t>(view.phase)];
}

// A training function's job. Times are those of the last report.
json job_row(const FunctionState& f, const FunctionSpec& spec, int devices) {
  const JobView view = *job_view(spec, f.job, f.submitted, f.present.alive);
  const std::string_view state = state_of(view, f, devices);
  json out{{"state", state},
           {"trouble", view.trouble},
           {"epochs", spec.training().epochs},
           {"samples", view.samples},
           {"done", view.done},
           {"devices", devices},
           {"batch", view.batch},
           {"learning_rate", view.learning_rate},
           {"noise", view.noise}};
  if (!f.job) return out;
  const train::JobStatus& s = *f.job;
  const bool finished = view.phase == JobPhase::kFinished;
  out.update({{"epoch", finished ? s.epochs : train::position_of(s).epoch},
              {"step", train::position_of(s).step},
              {"workers", s.workers},
              {"generation", s.generation},
              {"members", s.members},
              {"batch_reason", s.batch_reason},
              {"waits_for", s.waits_for},
              {"trains", s.progress.has_value()},
              {"model", s.model}});
  if (s.progress && s.samples > 0) {
    const double rate = s.workers > 0 && state == "running" ? s.progress->samples_per_second : 0;
    out.update({{"loss", s.progress->loss},
                {"samples_per_second", rate},
                {"goodput", rate * efficiency(view.noise, view.batch, s.base_batch)},
                {"step_ms", s.progress->step_seconds * 1000},
                {"wait_ms", s.progress->wait_seconds * 1000},
                {"checkpoint_trouble", s.progress->trouble}});
    if (rate > 0) out["left_s"] = static_cast<double>(view.samples - view.done) / rate;
  }
  if (s.step)
    out["step_model"] = {{"alpha_c", s.step->alpha_c},
                         {"beta_c", s.step->beta_c},
                         {"alpha_r", s.step->alpha_r},
                         {"beta_r", s.step->beta_r},
                         {"gamma", s.step->gamma}};
  if (s.profile) out["profile"] = to_json(*s.profile, s, f.submitted);
  if (!s.profile && !s.not_profiled.empty()) out["not_profiled"] = s.not_profiled;
  if (s.checkpoint)
    out["checkpoint"] = {{"path", s.checkpoint->path},
                         {"step", s.checkpoint->at.step},
                         {"bytes", s.checkpoint->bytes},
                         {"seconds", s.checkpoint->seconds}};
  json reforms = json::array();
  for (const train::Reform& r : s.reforms) reforms.push_back(to_json(r));
  out["reforms"] = std::move(reforms);
  return out;
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

namespace {

// A function's files for types of devices; no type: all others.
json variant_rows(const FunctionSpec& spec) {
  json out = json::array();
  if (!spec.is_inference()) return out;
  for (const ModelVariant& v : spec.inference().variants)
    out.push_back({{"device_type", v.device_type},
                   {"quantization", v.quantization},
                   {"batch", v.model.max_batch},
                   {"model", v.model.path},
                   {"content", v.model.content},
                   {"fault", v.fault}});
  return out;
}

// What a status shows of a function. `oldest_ms`: oldest_stale_ms().
json brief_row_of(const Control& control, const FunctionState& r, const Holding& held,
                  UnixMillis oldest_ms) {
  const FunctionName& name = r.stored.name;
  const FunctionSpec& spec = spec_of(r.stored, r.stored.newest);
  const InferenceSpec inference = spec.is_inference() ? spec.inference() : InferenceSpec();
  const Starts::Trouble* trouble = control.start_trouble(name, r.stored.newest);
  return {{"namespace", name.space},
          {"name", name.name},
          {"ready", held.ready > 0},
          {"revision", r.stored.newest},
          {"serving", r.stored.serving},
          {"replicas",
           {{"ready", held.ready},
            {"starting", held.starting},
            {"draining", held.draining},
            {"min", inference.min_replicas},
            {"max", inference.max_replicas}}},
          {"slo_ms", millis(inference.slo.latency)},
          {"percentile", inference.slo.percentile},
          {"p95_ms", millis(r.traffic.latency(0.95, kShown))},
          {"violations_pct", 100 * r.traffic.violations(kShown)},
          {"rps", r.traffic.request_rate(Seconds(5))},
          {"policy", spec.policy.empty() ? control.settings().bundle : spec.policy},
          {"unavailable", r.unavailable},
          {"start_failures", control.start_failures(name, r.stored.newest)},
          {"start_error", trouble != nullptr ? trouble->error : ""},
          {"rollout_failed", control.rollout_failed(name)},
          {"stale_ms", oldest_ms}};
}

json row_of(const Control& control, const FunctionState& r, const Instances& instances,
            UnixMillis oldest_ms, UnixMillis wall) {
  const FunctionName& name = r.stored.name;
  const FunctionSpec& spec = spec_of(r.stored, r.stored.newest);
  const InferenceSpec inference = spec.is_inference() ? spec.inference() : InferenceSpec();
  const Holding held = holding_of(instances);
  const Account costs = control.accounting().of(name);
  const TrafficTotals& t = r.traffic.totals();
  json split = json::array();
  for (const auto& [number, percent] : split_of(instances, r))
    split.push_back({{"revision", number}, {"percent", percent}});
  json out = brief_row_of(control, r, held, oldest_ms);
  out.update({{"split", split},
              {"newest_ready", newest_ready(instances, r)},
              {"canary_percent", inference.canary_traffic_percent},
              {"sm", held.sm},
              {"request", held.request},
              {"limit", held.limit},
              {"memory", held.memory},
              {"p50_ms", millis(r.traffic.latency(0.50, kShown))},
              {"p99_ms", millis(r.traffic.latency(0.99, kShown))},
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
              {"model", spec.model().path},
              {"variants", variant_rows(spec)},
              {"inputs", wire::to_json(spec.model())["inputs"]},
              {"file", file_without_token(spec)},
              {"age_ms", wall - r.stored.revisions.front().created}});
  if (!spec.is_inference()) {
    out["plan"] = policy::plan_of(spec, control.settings().plan, *r.bundle).name;
    out["job"] = job_row(r, spec, held.ready + held.starting);
  }
  const Decision* last = control.decisions().last(name, wall);
  out["last_decision"] = last != nullptr ? to_json(*last) : json();
  return out;
}

// The groups of its alike instances, over the last ten seconds.
json groups_of(const Control& control, const FunctionState& r) {
  const FunctionSpec& spec = spec_of(r.stored, r.stored.newest);
  if (!spec.is_inference()) return json::array();
  const double percentile = spec.inference().slo.percentile;
  json out = json::array();
  for (const auto& [key, group] : control.groups().all()) {
    if (key.function != r.stored.name || group.now().instances == 0) continue;
    out.push_back({{"revision", key.revision},
                   {"type", key.type},
                   {"sm", key.sm.permille},
                   {"quota", key.quota.permille},
                   {"batch", key.batch},
                   {"instances", group.now().instances},
                   {"in_flight", group.now().in_flight},
                   {"rps", group.now().requests_per_second},
                   {"inferences_per_second", group.now().inferences_per_second},
                   {"concurrency", group.now().concurrency},
                   {"latency_ms", millis(group.latency(percentile / 100))},
                   {"body_bytes", group.body_bytes()},
                   {"service_rate", group.service_rate()},
                   {"queue_ms", millis(group.queue())},
                   {"compute_ms", millis(group.compute())}});
  }
  return out;
}

// As of a function without a revision, for nothing is known of its own.
FunctionState nothing_known_of(const FunctionName& name, UnixMillis wall) {
  FunctionState none;
  none.stored.name = name;
  none.stored.revisions.push_back({name, 0, {.name = name}, wall});
  return none;
}

void mark_apart(json& row, const SetApart& apart) {
  row.update({{"unavailable", said_of(apart)}, {"set_apart", true}});
}

}  // namespace

json function_row(const Control& control, const FunctionName& name, UnixMillis wall) {
  const Instances instances = instances_of(control, name);
  const UnixMillis oldest_ms = oldest_stale_ms(control, wall);
  if (const auto apart = control.apart().find(name); apart != control.apart().end()) {
    json out = row_of(control, nothing_known_of(name, wall), instances, oldest_ms, wall);
    mark_apart(out, apart->second);
    out["file"] = "";
    return out;
  }
  const FunctionState& r = control.functions().at(name);
  json out = row_of(control, r, instances, oldest_ms, wall);
  out["groups"] = groups_of(control, r);
  return out;
}

json function_rows(const Control& control, UnixMillis wall) {
  json out = json::array();
  const UnixMillis oldest_ms = oldest_stale_ms(control, wall);
  auto instances = instances_by_function(control);
  for (const auto& [name, r] : control.functions())
    out.push_back(row_of(control, r, instances[name], oldest_ms, wall));
  for (const auto& [name, apart] : control.apart()) {
    out.push_back(row_of(control, nothing_known_of(name, wall), instances[name], oldest_ms, wall));
    mark_apart(out.back(), apart);
    out.back()["file"] = "";
  }
  return out;
}

json brief_function_rows(const Control& control, UnixMillis wall) {
  json out = json::array();
  const UnixMillis oldest_ms = oldest_stale_ms(control, wall);
  auto instances = instances_by_function(control);
  for (const auto& [name, r] : control.functions()) {
    out.push_back(brief_row_of(control, r, holding_of(instances[name]), oldest_ms));
    if (const Decision* last = control.decisions().last(name, wall))
      out.back()["last_decision"] = {{"summary", summary(*last)}};
  }
  for (const auto& [name, apart] : control.apart()) {
    out.push_back(brief_row_of(control, nothing_known_of(name, wall), holding_of(instances[name]),
                               oldest_ms));
    mark_apart(out.back(), apart);
  }
  return out;
}

json revision_rows(const Control& control, const std::string& of) {
  json out = json::array();
  auto instances = instances_by_function(control);
  for (const auto& [name, r] : control.functions()) {
    if (!of.empty() && function_name(of) != name) continue;
    const auto split = split_of(instances[name], r);
    for (const Revision& revision : r.stored.revisions) {
      int percent = 0;
      for (const auto& [number, part] : split)
        if (number == revision.number) percent = part;
      out.push_back({{"function", to_string(name)},
                     {"revision", revision.number},
                     {"created", revision.created},
                     {"percent", percent},
                     {"newest", revision.number == r.stored.newest},
                     {"model", revision.spec.model().path},
                     {"content", revision.spec.model().content},
                     {"variants", variant_rows(revision.spec)},
                     {"slo_ms", slo_ms(revision.spec)}});
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
              {"socket", o.address},
              {"ready_after_ms", o.ready_after_ms},
              {"start_time", o.start_time},
              {"ended", o.ended},
              {"used_ms", o.used.count() / 1'000'000},
              {"used", control.accounting().used_share(o.instance.id).permille},
              {"used_limit", control.accounting().used_limit(o.instance.id).permille},
              {"ungated_ms", o.ungated.count() / 1'000'000},
              {"peak_memory", o.peak_memory},
              {"device_fault", o.device_fault},
              {"error", o.error},
              {"foreign", o.foreign},
              {"stale_ms", node_stale_ms(control, o.node, wall)}});
    if (o.memory_held)
      i.update({{"memory_held", *o.memory_held}, {"memory_limit", memory_limit(o)}});
    out.push_back(std::move(i));
  }
  return out;
}

namespace {

// What instances hold of a device, together.
struct Reserved {
  int64_t area = 0;
  Bytes memory = 0;
  int instances = 0;
};

std::map<DeviceId, Reserved> reserved_by_device(const Control& control) {
  std::map<DeviceId, Reserved> out;
  for (const ObservedInstance& o : control.seen().instances) {
    if (o.instance.state == InstanceState::kGone) continue;
    for (const Part& p : o.instance.parts) {
      Reserved& r = out[p.device];
      r.area += area(p.slice);
      r.memory += p.slice.memory;
      ++r.instances;
    }
  }
  return out;
}

}  // namespace

json device_rows(const Control& control, UnixMillis wall) {
  json out = json::array();
  auto reserved = reserved_by_device(control);
  for (const Device& d : control.seen().devices) {
    json row = wire::to_json(d);
    const ObservedNode* node = find_node(control.seen(), d.node);
    row["backstop"] = (node == nullptr || node->backstop) && d.kind == DeviceKind::kCpu;
    if (const auto load = control.seen().loads.find(d.id); load != control.seen().loads.end())
      row.update(
          {{"busy_percent", load->second.busy_percent}, {"memory_used", load->second.memory_used}});
    const Reserved& held = reserved[d.id];
    row.update({{"instances", held.instances},
                {"reserved", held.area / 1000},
                {"memory_reserved", held.memory},
                {"stale_ms", node_stale_ms(control, d.node, wall)}});
    out.push_back(std::move(row));
  }
  return out;
}

// Silent peers count: one of several determines the figure of all. 0: never seen.
json status(const Control& control) {
  const Observation& o = control.seen();
  const auto oldest = [](const auto& all) {
    UnixMillis seen = all.empty() ? 0 : all.front().seen;
    for (const auto& one : all) seen = std::min(seen, one.seen);
    return seen;
  };
  const auto lacks = [](const ObservedNode& n) { return !n.backstop; };
  const auto weakest = std::ranges::find_if(o.nodes, lacks);
  const auto shown = weakest != o.nodes.end() ? weakest : o.nodes.begin();
  return {{"node", all_nodes_there(o)},
          {"gateway", all_gateways_there(o)},
          {"node_seen", oldest(o.nodes)},
          {"gateway_seen", oldest(o.gateways)},
          {"policy", control.settings().bundle},
          {"policy_settings", control.settings().bundle_settings},
          {"plan", control.settings().plan},
          {"backstop", weakest == o.nodes.end()},
          {"enforcement", shown == o.nodes.end() ? "" : shown->enforcement}};
}

// Since each function's creation.
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
                   {"slo_ms", slo_ms(spec_of(r.stored, r.stored.newest))},
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
