#include "control/api.h"

#include <algorithm>
#include <charconv>

#include "control/function_file.h"
#include "control/metrics.h"
#include "control/routes.h"
#include "wire/json.h"

namespace sluice::control {
namespace {

using nlohmann::json;
using wire::http::verb;

constexpr Nanos kShown = Seconds(60);  // listings speak of the last minute

json to_json(const Decision& d) {
  return {{"number", d.number},
          {"at", d.at},
          {"function", d.function.name.empty() ? "" : to_string(d.function)},
          {"action", d.action},
          {"subject", d.subject},
          {"detail", d.detail},
          {"reason", wire::to_json(d.reason)},
          {"fault", d.fault}};
}

bool same_secret(std::string_view a, std::string_view b) {
  unsigned different = a.size() == b.size() ? 0 : 1;
  for (size_t i = 0; i < a.size(); ++i)
    different |= static_cast<unsigned char>(a[i]) ^
                 static_cast<unsigned char>(b.empty() ? 0 : b[i % b.size()]);
  return different == 0;
}

Result<int> to_int(const std::string& text, std::string_view what, int otherwise) {
  if (text.empty()) return otherwise;
  int n = 0;
  const auto [end, fault] = std::from_chars(text.data(), text.data() + text.size(), n);
  if (fault != std::errc() || end != text.data() + text.size() || n < 0)
    return Error{ErrorKind::kInvalid,
                 std::string(what) + ": '" + text + "' is no number from 0 up"};
  return n;
}

double percent_late(const TrafficTotals& t) {
  const uint64_t ended = t.ok + t.shed + t.failed;
  return ended == 0
             ? 0
             : 100.0 * static_cast<double>(t.late + t.shed + t.failed) / static_cast<double>(ended);
}

}  // namespace

bool Api::allows(const wire::HttpRequest& request) const {
  const auto field = request[wire::http::field::authorization];
  const std::string_view bearer(field.data(), field.size());
  return token_.empty() || (bearer.starts_with("Bearer ") && same_secret(bearer.substr(7), token_));
}

wire::HttpResponse Api::handle(const wire::HttpRequest& request, UnixMillis wall) {
  const auto target = wire::parse_target({request.target().data(), request.target().size()});
  if (!target.ok()) return wire::error_response(target.error());
  if (!allows(request))
    return wire::error_response(401, "the platform's token is wanted: Authorization: Bearer …");
  if (target->path == std::vector<std::string>{"metrics"} && request.method() == verb::get)
    return wire::text_response(metrics(control_), "text/plain; version=0.0.4; charset=utf-8");
  const auto answer = route(request, *target, wall);
  // What was asked for begins now, and whoever reads the answer finds it: a function that was
  // applied can be called.
  if (answer.ok() && request.method() != verb::get) control_.step(wall);
  return answer.ok() ? wire::json_response(*answer) : wire::error_response(answer.error());
}

Result<json> Api::route(const wire::HttpRequest& request, const wire::Target& target,
                        UnixMillis wall) {
  const auto& path = target.path;
  const verb method = request.method();
  const Error missing{ErrorKind::kNotFound,
                      "no such path: " + std::string(request.method_string()) + " " +
                          std::string(request.target())};
  if (path.size() < 2 || path[0] != "v1") return missing;
  const std::string& kind = path[1];
  if (method == verb::get && path.size() == 2) {
    if (kind == "functions") return functions(wall);
    if (kind == "revisions") return revisions(target.get("function"));
    if (kind == "instances") return instances();
    if (kind == "devices") return devices();
    if (kind == "decisions") return decisions(target);
    if (kind == "report") return report();
    if (kind == "status")
      return json{{"node", control_.seen().node_there},
                  {"gateway", control_.seen().gateway_there},
                  {"policy", control_.settings().bundle}};
    if (kind == "profiles") {
      json out = json::object();
      for (const auto& [model, profile] : control_.profiles())
        out[model] = control::to_json(profile);
      return out;
    }
  }
  if (kind == "functions" && path.size() == 2 && method == verb::post)
    return apply(request, target, wall);
  if (kind == "profiles" && path.size() == 2 && method == verb::put) {
    SLUICE_ASSIGN(body, wire::parse_json(request.body()));
    wire::Fields f(body, "profile");
    const std::string model = f.text("model");
    SLUICE_ASSIGN(profile, profile_from(body));
    if (model.empty()) return Error{ErrorKind::kInvalid, "profile.model: must not be empty"};
    SLUICE_TRY(control_.set_profile(model, profile));
    return json{{"points", profile.points.size()}};
  }
  if (kind == "functions" && path.size() >= 4) {
    const FunctionName name{path[2], path[3]};
    if (!control_.functions().contains(name))
      return Error{ErrorKind::kNotFound, "function '" + to_string(name) + "' not found"};
    if (path.size() == 4 && method == verb::get) return function(name, wall);
    if (path.size() == 4 && method == verb::delete_) {
      SLUICE_TRY(control_.remove(name, wall));
      return json{{"deleted", to_string(name)}};
    }
    if (path.size() == 5 && path[4] == "rollback" && method == verb::post) {
      int to = 0;
      if (!request.body().empty()) {
        SLUICE_ASSIGN(body, wire::parse_json(request.body()));
        wire::Fields f(body, "rollback");
        SLUICE_ASSIGN(checked, f.finish(static_cast<int>(f.integer("to", 0, 0, 1'000'000'000))));
        to = checked;
      }
      SLUICE_ASSIGN(revision, control_.rollback(name, to, wall));
      return json{{"function", to_string(name)}, {"revision", revision}};
    }
    if (path.size() == 5 && path[4] == "rates" && method == verb::get) {
      SLUICE_ASSIGN(span, to_int(target.get("seconds"), "seconds", 300));
      SLUICE_ASSIGN(samples, control_.store().rates(name, wall / 1000 - span));
      json out = json::array();
      for (const RateSample& s : samples)
        out.push_back({{"second", s.second},
                       {"rate", s.rate},
                       {"queued", s.queued},
                       {"in_flight", s.in_flight},
                       {"violations", s.violations}});
      return out;
    }
  }
  if (kind == "devices" && path.size() == 4 && method == verb::post &&
      (path[3] == "drain" || path[3] == "undrain")) {
    SLUICE_TRY(control_.set_drained(path[2], path[3] == "drain", wall));
    return json{{"device", path[2]}, {"drained", path[3] == "drain"}};
  }
  return missing;
}

Result<json> Api::apply(const wire::HttpRequest& request, const wire::Target& target,
                        UnixMillis wall) {
  const FileContext context{.file = target.get("file", "-"),
                            .folder = target.get("folder"),
                            .home = target.get("home", home_)};
  SLUICE_ASSIGN(specs, parse_functions(request.body(), context));
  SLUICE_ASSIGN(applied, control_.apply(specs, target.get("dry_run") == "1", wall));
  json results = json::array();
  for (const Applied& a : applied)
    results.push_back({{"function", to_string(a.function)},
                       {"revision", a.revision},
                       {"action", a.what},
                       {"difference", a.difference}});
  return json{{"results", results}};
}

// One row of `get functions`, and the whole of `describe`.
json Api::function(const FunctionName& name, UnixMillis wall) const {
  const Control::Runtime& r = control_.functions().at(name);
  const FunctionSpec& spec = spec_of(r.stored, r.stored.newest);
  int ready = 0, starting = 0, draining = 0, sm = 0, request = 0, limit = 0;
  Bytes memory = 0;
  for (const ObservedInstance& o : control_.seen().instances) {
    const Instance& i = o.instance;
    if (i.function != name || i.state == InstanceState::kGone || o.foreign) continue;
    ready += i.state == InstanceState::kReady;
    starting += i.state == InstanceState::kStarting;
    draining += i.state == InstanceState::kDraining;
    sm += i.slice.sm.permille;
    request += i.slice.quota.request.permille;
    limit += i.slice.quota.limit.permille;
    memory += std::max(i.slice.memory, o.peak_memory);
  }
  const auto account = control_.accounting().all().find(name);
  const Account costs = account == control_.accounting().all().end() ? Account{} : account->second;
  const TrafficTotals& t = r.traffic.totals();
  const bool serving_ready =
      std::ranges::any_of(control_.seen().instances, [&](const ObservedInstance& o) {
        return o.instance.function == name && o.instance.revision == r.stored.newest &&
               o.instance.state == InstanceState::kReady;
      });
  json split = json::array();
  for (const auto& [number, percent] : traffic_split(r.stored, serving_ready))
    split.push_back({{"revision", number}, {"percent", percent}});
  json out{{"namespace", name.space},
           {"name", name.name},
           {"ready", ready > 0},
           {"revision", r.stored.newest},
           {"serving", r.stored.serving},
           {"split", split},
           {"replicas",
            {{"ready", ready},
             {"starting", starting},
             {"draining", draining},
             {"min", spec.min_replicas},
             {"max", spec.max_replicas}}},
           {"sm", sm},
           {"request", request},
           {"limit", limit},
           {"memory", memory},
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
           {"policy", spec.policy.empty() ? control_.settings().bundle : spec.policy},
           {"unavailable", r.unavailable},
           {"rollout_failed", r.rollout_failed},
           {"model", spec.model.path},
           {"inputs", wire::to_json(spec.model)["inputs"]},
           {"file", to_yaml(spec)},
           {"age_ms", wall - r.stored.revisions.front().created}};
  out["last_decision"] = r.last_decision ? to_json(*r.last_decision) : json();
  return out;
}

json Api::functions(UnixMillis wall) const {
  json out = json::array();
  for (const auto& [name, r] : control_.functions()) out.push_back(function(name, wall));
  return out;
}

json Api::revisions(const std::string& of) const {
  json out = json::array();
  for (const auto& [name, r] : control_.functions()) {
    if (!of.empty() && function_name(of) != name) continue;
    const bool ready = std::ranges::any_of(
        control_.seen().instances, [&, &name = name, &r = r](const ObservedInstance& o) {
          return o.instance.function == name && o.instance.revision == r.stored.newest &&
                 o.instance.state == InstanceState::kReady;
        });
    for (const Revision& revision : r.stored.revisions) {
      int percent = 0;
      for (const auto& [number, part] : traffic_split(r.stored, ready))
        if (number == revision.number) percent = part;
      out.push_back({{"function", to_string(name)},
                     {"revision", revision.number},
                     {"created", revision.created},
                     {"percent", percent},
                     {"newest", revision.number == r.stored.newest},
                     {"model", revision.spec.model.path},
                     {"slo_ms", millis(revision.spec.slo.latency)}});
    }
  }
  return out;
}

json Api::instances() const {
  json out = json::array();
  for (const ObservedInstance& o : control_.seen().instances) {
    json i = wire::to_json(o.instance);
    i.update({{"pid", o.pid},
              {"socket", o.socket},
              {"ready_after_ms", o.ready_after_ms},
              {"used_ms", o.used.count() / 1'000'000},
              {"used", control_.accounting().used_share(o.instance.id).permille},
              {"peak_memory", o.peak_memory},
              {"error", o.error},
              {"foreign", o.foreign}});
    out.push_back(std::move(i));
  }
  return out;
}

json Api::devices() const {
  json out = json::array();
  for (const Device& d : control_.seen().devices) {
    json row = wire::to_json(d);
    int64_t reserved = 0;
    Bytes memory = 0;
    int instances = 0;
    for (const ObservedInstance& o : control_.seen().instances) {
      if (o.instance.device != d.id || o.instance.state == InstanceState::kGone) continue;
      reserved += area(o.instance.slice);
      memory += o.instance.slice.memory;
      ++instances;
    }
    row.update(
        {{"instances", instances}, {"reserved", reserved / 1000}, {"memory_reserved", memory}});
    out.push_back(std::move(row));
  }
  return out;
}

Result<json> Api::decisions(const wire::Target& target) const {
  SLUICE_ASSIGN(limit, to_int(target.get("limit"), "limit", 50));
  const std::string of = target.get("function");
  SLUICE_ASSIGN(found, control_.store().decisions(
                           of.empty() ? std::nullopt : std::optional(function_name(of)), limit));
  json out = json::array();
  for (const Decision& d : found) out.push_back(to_json(d));
  return out;
}

// Since each function was made.
json Api::report() const {
  json out = json::array();
  for (const auto& [name, r] : control_.functions()) {
    const TrafficTotals& t = r.traffic.totals();
    const auto account = control_.accounting().all().find(name);
    const Account a = account == control_.accounting().all().end() ? Account{} : account->second;
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
  return {{"policy", control_.settings().bundle}, {"functions", out}};
}

}  // namespace sluice::control
