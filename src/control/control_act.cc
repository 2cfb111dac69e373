// What comes of the loop's decisions: orders to the cluster, records of them, the gateway's table.
#include <algorithm>
#include <cmath>

#include "base/log.h"
#include "base/random.h"
#include "control/control.h"
#include "control/model_copies.h"
#include "control/routes.h"
#include "wire/json.h"

namespace sluice::control {
namespace {

using nlohmann::json;

std::string base36(uint64_t n, int digits) {
  std::string out;
  for (int i = 0; i < digits; ++i, n /= 36) out += "0123456789abcdefghijklmnopqrstuvwxyz"[n % 36];
  return out;
}

}  // namespace

// A start of a revision whose last ones failed waits; said once for each failure.
bool Control::held_back(const Action& action, Time now, UnixMillis wall) {
  const auto* start = std::get_if<StartInstance>(&action.what);
  if (start == nullptr) return false;
  const auto found = troubles_.find({action.function, start->revision});
  if (found == troubles_.end() || now >= found->second.retry_at) return false;
  Trouble& t = found->second;
  if (std::exchange(t.said, true)) return true;
  const double wait = seconds(t.retry_at - now);
  record({.at = wall,
          .function = action.function,
          .action = "unmet",
          .subject = revision_id(action.function, start->revision),
          .reason = {"start-backoff",
                     "Start " + std::to_string(t.tries + 1) + " of revision " +
                         std::to_string(start->revision) + " waits for " +
                         std::to_string(std::lround(std::ceil(wait))) +
                         " s, as the last one failed: " + t.error + ".",
                     {{"tries", static_cast<double>(t.tries)},
                      {"failures", static_cast<double>(t.failures)},
                      {"wait_s", wait}}}});
  return true;
}

// The gateway gives it no more; it drains when it has nothing of the gateway's.
void Control::stop(const InstanceId& id, Time now, Nanos drain) {
  stopping_.try_emplace(id, Stopping{.until = now + drain});
  push_routes();
  drain_idle(now);
}

// A request that was granted may still be on its way: who drains before it is there loses it. A
// gateway that cannot be asked for too long is not waited for.
void Control::drain_idle(Time now) {
  for (auto& [id, s] : stopping_) {
    const Nanos left = s.until - now;
    const bool idle = s.left_out && seen_.gateway_there &&
                      seen_.routes_version == routes_version_ && !seen_.busy.contains(id);
    const bool lost = s.told && now - *s.told >= settings_.patience;
    if ((s.told && !lost) || (!s.told && !idle && left > Nanos(0))) continue;
    if (lost) log::info("{}: it was stopped but runs: again", id);
    const auto told = cluster_.stop(id, std::max(left, Nanos(0)));
    if (!told.ok()) log::warn("{}: {}", id, told.error().message);
    s.told = now;  // or asked in vain: again when patience ends
  }
}

std::string Control::new_id(const FunctionName& f, int revision) {
  Random random(++next_id_);
  const std::string prefix = f.space == "default" ? f.name : f.space + "." + f.name;
  return prefix.substr(0, 40) + "-" + std::to_string(revision) + "-" + base36(random.next(), 5);
}

void Control::carry_out(const Action& action, Time now, UnixMillis wall) {
  Decision d{.at = wall,
             .function = action.function,
             .detail = wire::to_json(action),
             .reason = action.reason};
  Runtime& r = functions_.at(action.function);
  Account& account = accounting_.of(action.function);
  Result<void> outcome;
  Nanos least{0};  // that the demand must stay unmet before the decision is recorded
  if (const auto* start = std::get_if<StartInstance>(&action.what)) {
    const FunctionSpec& spec = spec_of(r.stored, start->revision);
    Instance i{.id = new_id(action.function, start->revision),
               .function = action.function,
               .revision = start->revision,
               .device = start->device,
               .slice = start->slice,
               .position = start->position,
               .batch = start->batch,
               .started = now};
    d.action = "start";
    d.subject = i.id;
    ModelSpec model = spec.model;
    model.path = start_path(settings_.models, model);
    outcome = cluster_.start({i, model, spec.batching});
    if (outcome.ok()) {
      ordered_.emplace(i.id, std::pair(i, now));
      started_.emplace(i.id, now);
      // There was no room before. A start that failed before may fail again.
      if (!troubles_.contains({action.function, start->revision})) r.unavailable.clear();
      ++account.starts;
      counts_due_ = true;
    }
  } else if (const auto* stop = std::get_if<StopInstance>(&action.what)) {
    d.action = "stop";
    d.subject = stop->instance;
    this->stop(stop->instance, now, settings_.drain);
    ++account.stops;
    counts_due_ = true;
    r.last_scale_down = now;
  } else if (const auto* resize = std::get_if<ResizeInstance>(&action.what)) {
    d.action = "resize";
    d.subject = resize->instance;
    outcome = cluster_.resize(resize->instance, resize->slice, resize->position);
    if (outcome.ok()) {
      ++account.resizes;
      counts_due_ = true;
      for (ObservedInstance& o : seen_.instances)
        if (o.instance.id == resize->instance) {
          if (resize->slice.quota.request < o.instance.slice.quota.request) r.last_scale_down = now;
          o.instance.slice = resize->slice;
          o.instance.position = resize->position;
        }
    }
  } else {
    d.action = "unmet";
    d.subject = to_string(action.function);
    const bool has_instance = std::ranges::any_of(seen_.instances, [&](const ObservedInstance& o) {
      return o.instance.function == action.function && alive(o);
    });
    const bool comes = std::ranges::any_of(ordered_, [&](const auto& entry) {
      return entry.second.first.function == action.function;
    });
    r.unavailable = has_instance || comes ? "" : action.reason.text;
    if (r.unavailable.empty()) least = settings_.unmet_after;
  }
  if (!outcome.ok()) d.fault = outcome.error().message;
  if ((d.action == "unmet" || !d.fault.empty()) && fold(r, d, least)) return;
  record(std::move(d));
}

// Whether the decision need not be said: it was said, and goes on; or it has not lasted for `least`
// yet. One that goes on for long is said again, with how often it was decided.
bool Control::fold(Runtime& r, Decision& d, Nanos least) const {
  constexpr UnixMillis kAnother = 10'000;  // after such a pause it has begun anew
  constexpr UnixMillis kAgainAfter = 600'000;
  Runtime::Said& s = r.said[d.action + (d.fault.empty() ? " " : " in vain ") + d.reason.rule];
  const auto within = [&](UnixMillis since, UnixMillis most) {
    return d.at >= since && d.at - since < most;
  };
  // Before it is said, it may pause for a few decisions.
  const Nanos pause = 3 * std::max(bundle_of(r).cadence.decide_every, settings_.decide_at_rest);
  if (!within(s.last, s.at == 0 ? pause / Millis(1) : kAnother)) s = {.since = d.at};
  s.last = d.at;
  if (s.at == 0 && within(s.since, least / Millis(1))) return true;
  if (s.at != 0 && within(s.at, kAgainAfter)) return ++s.repeated, true;
  if (s.at != 0) {
    d.reason.numbers.emplace_back("repeated", static_cast<double>(s.repeated));
    d.reason.text += " It was decided " + std::to_string(s.repeated) + " times in the last " +
                     std::to_string((d.at - s.at) / 1000) + " s.";
  }
  s.at = d.at;
  s.repeated = 0;
  return false;
}

void Control::record(Decision d) {
  log::info("decision {}", json{{"function", to_string(d.function)},
                                {"action", d.action},
                                {"subject", d.subject},
                                {"reason", wire::to_json(d.reason)},
                                {"fault", d.fault}}
                               .dump());
  if (const auto saved = store_.add_decision(d); saved.ok())
    d.number = *saved;
  else
    log::warn("{}", saved.error().message);
  if (auto f = functions_.find(d.function); f != functions_.end())
    f->second.last_decision = std::move(d);
}

Control::RouteInputs Control::route_inputs() const {
  RouteInputs in;
  for (const auto& [name, r] : functions_)
    in.functions.push_back({name, r.stored.newest, r.stored.serving, r.unavailable});
  for (const ObservedInstance& o : seen_.instances) {
    if (!alive(o)) continue;
    in.places.push_back({o.instance, o.socket});
    if (stopping_.contains(o.instance.id))
      in.places.back().instance.state = InstanceState::kDraining;
  }
  return in;
}

void Control::push_routes() {
  if (!seen_.gateway_there) return;
  const bool stale = seen_.routes_version != routes_version_ || routes_version_ == 0;
  RouteInputs inputs = route_inputs();
  if (inputs == pushed_for_ && !stale && !routes_stale_) return leave_out_stopping();
  std::vector<RoutedFunction> routed;
  for (const auto& [name, r] : functions_)
    routed.push_back({&r.stored, bundle_of(r).route, r.unavailable});
  std::vector<ObservedInstance> instances = seen_.instances;
  for (ObservedInstance& o : instances)
    if (stopping_.contains(o.instance.id) && alive(o)) o.instance.state = InstanceState::kDraining;
  json table = routing_table(routed, instances, predictor_);
  const std::string text = table.dump();
  if (text == pushed_ && !stale) {
    pushed_for_ = std::move(inputs);
    routes_stale_ = false;
    return leave_out_stopping();
  }
  // Larger than any version before, also those of a loop that died.
  routes_version_ = std::max(routes_version_, seen_.routes_version) + 1;
  table["version"] = routes_version_;
  const auto put = cluster_.set_routes(table);
  if (!put.ok()) {
    log::warn("routes: {}", put.error().message);
    pushed_.clear();  // it may have taken effect all the same
    routes_stale_ = true;
    return;
  }
  pushed_ = text;
  pushed_for_ = std::move(inputs);
  routes_stale_ = false;
  seen_.routes_version = routes_version_;
  seen_.busy = *put;
  leave_out_stopping();
}

void Control::leave_out_stopping() {
  for (auto& [id, s] : stopping_) s.left_out = true;
}

}  // namespace sluice::control
