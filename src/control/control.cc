#include "control/control.h"

#include <algorithm>

#include "base/log.h"
#include "base/random.h"
#include "control/function_file.h"
#include "control/routes.h"
#include "control/validate.h"
#include "policy/decide.h"
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

const StoredFunction* Control::find(const FunctionName& f) const {
  const auto found = functions_.find(f);
  return found == functions_.end() ? nullptr : &found->second.stored;
}

// ---- the loop --------------------------------------------------------------------------------

void Control::step(UnixMillis wall) {
  const Time now = clock_.now();
  observe();           // 1. what is
  count(now, wall);    // 2. what was asked for
  account(now, wall);  // 3. what was held and used
  if (seen_.node_there) {
    reconcile(now, wall);        // 4. what came of what was asked
    settle_rollouts(now, wall);  // 5. revisions that are ready take over
    forecast(now);
    if (now - decided_at_ >= settings_.decide_every) {
      decide(now, wall);  // 6. what shall be
      decided_at_ = now;
    }
  }
  push_routes();  // 7. the gateway learns of it
  keep(wall);     // 8. nothing is forgotten
}

Nanos Control::next_step() const {
  constexpr Nanos kSoon = Millis(25);
  const Nanos later = functions_.empty() ? Seconds(1) : settings_.decide_every;
  if (!ordered_.empty()) return kSoon;
  const auto starts = [](const ObservedInstance& o) {
    return o.instance.state == InstanceState::kStarting && ours(o);
  };
  return std::ranges::any_of(seen_.instances, starts) ? kSoon : later;
}

void Control::observe() {
  Observation o = cluster_.observe();
  if (!o.node_there && seen_.node_there)
    log::warn("the node daemon does not answer: slices stay as they are");
  if (!o.gateway_there && seen_.gateway_there) log::warn("the gateway does not answer");
  if (!o.node_there) {  // what was last seen is the best there is
    o.devices = seen_.devices;
    o.instances = seen_.instances;
    o.boot_id = seen_.boot_id;
  }
  seen_ = std::move(o);
}

// The first after a restart is the time since what the loop before left in the store.
std::optional<Nanos> Control::since(Done& last, Nanos least, Time now, UnixMillis wall) {
  const bool first = last.at == Time{};
  Nanos elapsed = now - last.at;
  if (first) elapsed = last.wall == 0 ? Nanos(0) : Millis(wall - last.wall);
  if (!first && elapsed < least) return std::nullopt;
  last = {now, wall};
  if (elapsed <= Nanos(0)) return std::nullopt;
  return elapsed;
}

// What was asked for, from differences of counters.
void Control::count(Time now, UnixMillis wall) {
  constexpr Nanos kLeast = Millis(200);
  const std::optional<Nanos> elapsed = since(counted_, kLeast, now, wall);
  if (!elapsed || !seen_.gateway_there) return;
  const bool restarted = seen_.gateway_started != gateway_started_;
  gateway_started_ = seen_.gateway_started;
  for (auto& [name, r] : functions_) {
    const auto t = std::ranges::find(seen_.traffic, name, &ObservedTraffic::function);
    if (t != seen_.traffic.end()) r.traffic.step(*t, *elapsed, restarted);
  }
}

// What was held and used, second by second, and what the store keeps of that second.
void Control::account(Time now, UnixMillis wall) {
  const std::optional<Nanos> elapsed =
      since(accounted_, settings_.account_every - Millis(100), now, wall);
  if (!elapsed) return;
  if (seen_.node_there) accounting_.step(seen_.instances, seen_.devices, *elapsed);
  if (!seen_.gateway_there) return;
  std::vector<RateSample> samples;
  for (auto& [name, r] : functions_) {
    const auto [requests, violations] = r.traffic.take();
    samples.push_back({name, wall / 1000, static_cast<double>(requests) / seconds(*elapsed),
                       r.traffic.queued(), r.traffic.in_flight(), violations});
  }
  if (const auto saved = store_.add_rates(samples); !saved.ok())
    log::warn("{}", saved.error().message);
}

void Control::reconcile(Time now, UnixMillis wall) {
  for (const ObservedInstance& o : std::vector(seen_.instances)) {
    const Instance& i = o.instance;
    ordered_.erase(i.id);
    if (!ours(o)) continue;
    const auto asked = stopping_.find(i.id);
    if (!alive(o)) {
      if (asked == stopping_.end()) ended(o, now, wall);
      (void)cluster_.stop(i.id, Nanos(0));  // forget it
    } else if (i.state == InstanceState::kDraining) {
      continue;
    } else if (asked == stopping_.end() ? find(i.function) == nullptr
                                        : now - asked->second >= settings_.patience) {
      log::info(
          "{}: {}", i.id,
          asked == stopping_.end() ? "its function is gone" : "it was stopped but runs: again");
      (void)stop(i.id, now);
    } else if (i.state == InstanceState::kReady) {
      troubles_.erase({i.function, i.revision});
      if (auto f = functions_.find(i.function); f != functions_.end())
        f->second.unavailable.clear();
    }
  }
  std::erase_if(stopping_, [&](const auto& entry) {
    return std::ranges::none_of(seen_.instances, [&](const ObservedInstance& o) {
      return o.instance.id == entry.first && alive(o);
    });
  });
  std::erase_if(ordered_, [&](const auto& entry) {
    const auto& [instance, at] = entry.second;
    if (now - at < settings_.patience) return false;
    record({.at = wall,
            .function = instance.function,
            .action = "lost",
            .subject = instance.id,
            .reason = {"start-lost",
                       "The start of " + instance.id + " never showed; it counts no more.",
                       {}}});
    return true;
  });
}

// An instance that nobody stopped is gone. One that was never ready counts against its revision.
void Control::ended(const ObservedInstance& o, Time now, UnixMillis wall) {
  const Instance& i = o.instance;
  record({.at = wall,
          .function = i.function,
          .action = "lost",
          .subject = i.id,
          .reason = {"instance-ended", "Instance " + i.id + " ended by itself: " + o.error, {}}});
  const auto f = functions_.find(i.function);
  if (f == functions_.end() || o.ready_after_ms > 0) return;
  Trouble& t = troubles_[{i.function, i.revision}];
  const Nanos wait = Seconds(1LL << std::min(++t.failures, 10));
  t.retry_at = now + std::min(wait, settings_.retry_most);
  t.error = o.error;
  t.said = false;
  f->second.unavailable = "its last instance could not start: " + o.error;
  if (i.revision == f->second.stored.newest &&
      f->second.stored.newest != f->second.stored.serving && t.failures >= settings_.rollout_tries)
    give_up_rollout(i.function, t, wall);
}

void Control::give_up_rollout(const FunctionName& name, const Trouble& t, UnixMillis wall) {
  Runtime& r = functions_.at(name);
  const std::string newest = std::to_string(r.stored.newest);
  r.rollout_failed = "Revision " + newest + " could not start in " + std::to_string(t.failures) +
                     " tries (" + t.error + "); revision " + std::to_string(r.stored.serving) +
                     " goes on serving.";
  record({.at = wall,
          .function = name,
          .action = "rollout",
          .subject = revision_id(name, r.stored.newest),
          .reason = {
              "rollout-failed", r.rollout_failed, {{"tries", static_cast<double>(t.failures)}}}});
  if (const auto kept = keep_counts(); !kept.ok()) log::warn("{}", kept.error().message);
}

// The newest revision takes over when it has the instances that its share of the traffic needs, or
// at least one when that takes long. A canary below 100 % leaves the old one serving beside it.
void Control::settle_rollouts(Time now, UnixMillis wall) {
  for (auto& [name, r] : functions_) {
    StoredFunction& f = r.stored;
    if (f.newest == f.serving || spec_of(f, f.newest).canary_traffic_percent < 100) continue;
    if (!newest_is_up(name, r, now)) continue;
    if (const auto saved = store_.set_revisions(name, f.newest, f.newest); !saved.ok()) {
      log::warn("{}", saved.error().message);
      continue;
    }
    record({.at = wall,
            .function = name,
            .action = "rollout",
            .subject = revision_id(name, f.newest),
            .reason = {"newest-ready",
                       "Revision " + std::to_string(f.newest) +
                           " is ready and takes all traffic; revision " +
                           std::to_string(f.serving) + " finishes what it has.",
                       {}}});
    f.serving = f.newest;
    r.newest_ready_since = Time{};
  }
}

bool Control::newest_is_up(const FunctionName& name, Runtime& r, Time now) const {
  const auto of_newest = [&](const Instance& i) {
    return i.function == name && i.revision == r.stored.newest;
  };
  bool ready = false, coming = false;
  for (const ObservedInstance& o : seen_.instances) {
    ready |= of_newest(o.instance) && o.instance.state == InstanceState::kReady;
    coming |= of_newest(o.instance) && o.instance.state == InstanceState::kStarting;
  }
  for (const auto& [id, order] : ordered_) coming |= of_newest(order.first);
  if (!ready) return false;
  if (r.newest_ready_since == Time{}) r.newest_ready_since = now;
  return !coming || now - r.newest_ready_since >= settings_.rollout_patience;
}

Snapshot Control::snapshot(Time now) const {
  Snapshot s{.now = now};
  for (const auto& [name, r] : functions_) {
    // A revision that was given up gets nothing; the one that serves counts as the newest.
    const int wanted = r.rollout_failed.empty() ? r.stored.newest : r.stored.serving;
    FunctionView v{.spec = spec_of(r.stored, wanted), .revision = wanted};
    if (r.stored.serving != wanted) {
      const bool canary = v.spec.canary_traffic_percent < 100;
      v.older.push_back({r.stored.serving, spec_of(r.stored, r.stored.serving),
                         canary ? 100 - v.spec.canary_traffic_percent : 100});
    }
    v.rate = r.traffic.rate(settings_.rate_window);
    v.forecast = r.forecast.seen ? r.forecast.expected : v.rate;
    v.arrival_cv = r.traffic.arrival_cv();
    v.queued = r.traffic.queued();
    v.in_flight = r.traffic.in_flight();
    v.concurrency = r.traffic.concurrency(settings_.violation_window);
    v.concurrency_peak = r.traffic.concurrency_peak();
    v.violating =
        r.traffic.violations(settings_.violation_window) > 1 - v.spec.slo.percentile / 100;
    v.last_scale_down = r.last_scale_down;
    s.functions.push_back(std::move(v));
  }
  for (const ObservedInstance& o : seen_.instances)
    if (alive(o)) {
      s.instances.push_back(o.instance);
      if (stopping_.contains(o.instance.id)) s.instances.back().state = InstanceState::kDraining;
    }
  for (const auto& [id, order] : ordered_) s.instances.push_back(order.first);
  std::ranges::sort(s.instances, {}, &Instance::id);
  s.devices = seen_.devices;
  return s;
}

// Each measurement is of its own time: a filter takes what overlaps for news.
void Control::forecast(Time now) {
  if (now - forecast_at_ < settings_.rate_window) return;
  forecast_at_ = now;
  for (auto& [name, r] : functions_) {
    const FunctionSpec& spec = spec_of(r.stored, r.stored.newest);
    const policy::Bundle* bundle =
        policy::find_bundle(spec.policy.empty() ? settings_.bundle : spec.policy);
    if (bundle == nullptr) bundle = policy::find_bundle(settings_.bundle);
    const policy::Forecaster* forecaster = policy::find_forecaster(bundle->forecast);
    r.forecast =
        forecaster->step(r.forecast, r.traffic.rate(settings_.rate_window), settings_.rate_window);
  }
}

void Control::decide(Time now, UnixMillis wall) {
  for (const Action& action :
       policy::decide(snapshot(now), settings_.bundle, settings_.scale, predictor_))
    if (!held_back(action, now, wall)) carry_out(action, now, wall);
}

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
                     "Start " + std::to_string(t.failures + 1) + " of revision " +
                         std::to_string(start->revision) + " waits: the last one failed (" +
                         t.error + ").",
                     {{"failures", static_cast<double>(t.failures)}, {"wait_s", wait}}}});
  return true;
}

// The gateway gives it no more before it drains.
Result<void> Control::stop(const InstanceId& id, Time now) {
  stopping_[id] = now;
  push_routes();
  return cluster_.stop(id, settings_.drain);
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
    outcome = cluster_.start(
        {i, spec.model, {.max_size = start->batch, .max_delay = spec.batching.max_delay}});
    if (outcome.ok()) {
      ordered_.emplace(i.id, std::pair(i, now));
      ++account.starts;
    }
  } else if (const auto* stop = std::get_if<StopInstance>(&action.what)) {
    d.action = "stop";
    d.subject = stop->instance;
    outcome = this->stop(stop->instance, now);
    if (outcome.ok()) {
      ++account.stops;
      r.last_scale_down = now;
    } else {
      stopping_.erase(stop->instance);
    }
  } else if (const auto* resize = std::get_if<ResizeInstance>(&action.what)) {
    d.action = "resize";
    d.subject = resize->instance;
    outcome = cluster_.resize(resize->instance, resize->slice, resize->position);
    if (outcome.ok()) {
      ++account.resizes;
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
    // Said when it begins, when it is for another reason, and now and then, not at every decision.
    constexpr UnixMillis kRepeat = 10'000;
    const bool said = r.last_decision && r.last_decision->action == "unmet" &&
                      r.last_decision->reason.rule == action.reason.rule &&
                      wall - r.last_decision->at < kRepeat;
    const bool has_instance = std::ranges::any_of(seen_.instances, [&](const ObservedInstance& o) {
      return o.instance.function == action.function && alive(o);
    });
    r.unavailable = has_instance ? "" : action.reason.text;
    if (said) return;
  }
  if (!outcome.ok()) d.fault = outcome.error().message;
  record(std::move(d));
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

void Control::push_routes() {
  if (!seen_.gateway_there) return;
  std::vector<RoutedFunction> routed;
  for (const auto& [name, r] : functions_) routed.push_back({&r.stored, r.unavailable});
  std::vector<ObservedInstance> instances = seen_.instances;
  for (ObservedInstance& o : instances)
    if (stopping_.contains(o.instance.id) && alive(o)) o.instance.state = InstanceState::kDraining;
  json table = routing_table(routed, instances, predictor_);
  const std::string text = table.dump();
  const bool stale = seen_.routes_version != routes_version_ || routes_version_ == 0;
  if (text == pushed_ && !stale) return;
  // Larger than any version before, also those of a loop that died.
  routes_version_ = std::max(routes_version_, seen_.routes_version) + 1;
  table["version"] = routes_version_;
  if (const auto put = cluster_.set_routes(table); !put.ok()) {
    log::warn("routes: {}", put.error().message);
    return;
  }
  pushed_ = text;
  seen_.routes_version = routes_version_;
}

}  // namespace sluice::control
