#include "control/control.h"

#include <algorithm>
#include <set>

#include "base/log.h"
#include "control/routes.h"
#include "policy/decide.h"

namespace sluice::control {
namespace {

// By id, as observations are.
auto instance_in(const std::vector<ObservedInstance>& all, const InstanceId& id) {
  const auto id_of = [](const ObservedInstance& o) -> const InstanceId& { return o.instance.id; };
  const auto found = std::ranges::lower_bound(all, id, {}, id_of);
  return found != all.end() && id_of(*found) == id ? found : all.end();
}

constexpr Nanos kSoon = Millis(25);  // the next turn, while something starts

// Whether it is time again. Turns come a little early or late: that must not cost a whole one.
bool due(Time& last, Nanos every, Time now) {
  if (now - last < every - kSoon / 2) return false;
  last = now;
  return true;
}

}  // namespace

const StoredFunction* Control::find(const FunctionName& f) const {
  const auto found = functions_.find(f);
  return found == functions_.end() ? nullptr : &found->second.stored;
}

// ---- the loop --------------------------------------------------------------------------------

void Control::step(UnixMillis wall) {
  const Time now = clock_.now();
  observe(wall);       // 1. what is
  count(now, wall);    // 2. what was asked for
  account(now, wall);  // 3. what was held and used
  if (seen_.node_there) {
    reconcile(now, wall);        // 4. what came of what was asked
    settle_rollouts(now, wall);  // 5. revisions that are ready take over
    forecast(now);
    decide(now, wall);  // 6. what shall be
  }
  push_routes();  // 7. the gateway learns of it
  keep();         // 8. nothing is forgotten
}

Nanos Control::next_step() const {
  const Nanos later = functions_.empty() ? Seconds(1) : settings_.turn_every;
  if (!ordered_.empty()) return kSoon;
  const auto starts = [](const ObservedInstance& o) {
    return o.instance.state == InstanceState::kStarting && ours(o);
  };
  const auto waits = [](const auto& stopping) { return !stopping.second.told; };
  const bool soon =
      std::ranges::any_of(seen_.instances, starts) || std::ranges::any_of(stopping_, waits);
  return soon ? kSoon : later;
}

void Control::observe(UnixMillis wall) {
  Observation o = cluster_.observe();
  if (!o.node_there && seen_.node_there)
    log::warn("the node daemon does not answer: slices stay as they are");
  if (!o.gateway_there && seen_.gateway_there) log::warn("the gateway does not answer");
  if (!o.node_there) {  // what was last seen is the best there is
    o.devices = seen_.devices;
    o.instances = seen_.instances;
    o.boot_id = seen_.boot_id;
  }
  for (const ObservedTraffic& t : o.traffic) uncounted_[t.function] = t;
  tell_faults(o.devices, wall);
  tell_ended(o.instances, wall);
  tell_ungated(o.instances, wall);
  tell_unheld(o.instances, wall);
  seen_ = std::move(o);
}

// A device that has begun to fail; policies leave it like one that somebody drains. What the loop
// before us has told is in the store.
void Control::tell_faults(const std::vector<Device>& now, UnixMillis wall) {
  for (const Device& d : now) {
    const auto before = std::ranges::find(seen_.devices, d.id, &Device::id);
    if (d.fault.empty() || (before != seen_.devices.end() && before->fault == d.fault)) continue;
    const Reason why{
        "fault", "Device " + d.id + " fails: " + d.fault + ". It takes no more instances.", {}};
    if (const auto told = store_.last_reason(d.id);
        before == seen_.devices.end() && told.ok() && told->text == why.text)
      continue;
    record({.at = wall, .action = "drain", .subject = d.id, .reason = why});
  }
}

// A program that its node ends with its device. At our first look, whoever is gone was told of by
// the loop before.
void Control::tell_ended(const std::vector<ObservedInstance>& now, UnixMillis wall) {
  const bool first = seen_.boot_id.empty();
  for (const ObservedInstance& o : now) {
    const auto before = instance_in(seen_.instances, o.instance.id);
    const bool told =
        before != seen_.instances.end() ? !before->device_fault.empty() : first && !alive(o);
    if (o.device_fault.empty() || told) continue;
    record({.at = wall,
            .action = "stop",
            .subject = o.instance.id,
            .reason = {"fault",
                       "Program " + o.instance.id + " was ended, as its device " +
                           o.instance.device + " fails: " + o.device_fault + ".",
                       {}}});
  }
}

// Once of each in a node daemon's life; at our first look, what the loop before has told is known.
void Control::tell_ungated(const std::vector<ObservedInstance>& now, UnixMillis wall) {
  const bool first = seen_.boot_id.empty();
  for (const ObservedInstance& o : now) {
    const auto before = instance_in(seen_.instances, o.instance.id);
    if (o.ungated == Nanos(0) || (before != seen_.instances.end() && before->ungated > Nanos(0)))
      continue;
    const Reason why{
        "ungated",
        "A process of " + o.instance.id + " uses " + o.instance.device +
            " past the hook, without a permit: its slice is charged, nothing stops it.",
        {}};
    if (const auto told = store_.last_reason(o.instance.id);
        first && told.ok() && told->text == why.text)
      continue;
    record({.at = wall, .action = "notice", .subject = o.instance.id, .reason = why});
  }
}

// A living instance that its node does not hold to its slice, once when that begins and once when
// it is over.
void Control::tell_unheld(const std::vector<ObservedInstance>& now, UnixMillis wall) {
  const bool first = seen_.boot_id.empty();
  for (const ObservedInstance& o : now) {
    if (!alive(o)) continue;
    const std::string& id = o.instance.id;
    const auto before = instance_in(seen_.instances, id);
    bool was = before != seen_.instances.end() && !before->error.empty();
    if (const auto told = store_.last_reason(id); first && told.ok()) was = told->rule == "unheld";
    if (was == !o.error.empty()) continue;
    Reason why{"held", id + " is held to its slice again.", {}};
    if (!was) why = {"unheld", id + " is not held to its slice: " + o.error + ".", {}};
    record({.at = wall,
            .function = o.foreign ? FunctionName{.space = "", .name = ""} : o.instance.function,
            .action = "notice",
            .subject = id,
            .reason = why});
  }
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
  if (!seen_.gateway_there) return;  // what it counts meanwhile is of all that time
  const std::optional<Nanos> elapsed = since(counted_, kLeast, now, wall);
  if (!elapsed) return;
  const bool restarted = seen_.gateway_started != gateway_started_;
  gateway_started_ = seen_.gateway_started;
  for (auto& [name, r] : functions_) {
    if (restarted) r.traffic.restart();
    const uint64_t before = r.traffic.changes();
    const auto t = uncounted_.find(name);
    if (t != uncounted_.end())
      r.traffic.step(t->second, *elapsed, restarted);
    else
      r.traffic.rest(*elapsed);
    // A loop that has just begun does not know of the requests before.
    if (r.traffic.changes() != before || r.last_request == Time{}) r.last_request = now;
  }
  uncounted_.clear();
}

// What was held and used, second by second, and what the store keeps of that second.
void Control::account(Time now, UnixMillis wall) {
  const std::optional<Nanos> elapsed =
      since(accounted_, settings_.account_every - Millis(100), now, wall);
  if (!elapsed) return;
  counts_due_ = true;
  if (seen_.node_there) accounting_.step(seen_.instances, seen_.devices, *elapsed);
  if (!seen_.gateway_there) return;
  for (auto& [name, r] : functions_) {
    const auto [requests, violations] = r.traffic.take();
    const int queued = r.traffic.queued(), in_flight = r.traffic.in_flight();
    if (requests == 0 && violations == 0 && queued == 0 && in_flight == 0) continue;
    rates_.push_back({name, wall / 1000, static_cast<double>(requests) / seconds(*elapsed), queued,
                      in_flight, violations});
  }
}

// The longest that an instance took to become ready.
Nanos Control::start_cost(const FunctionName& f) const {
  int64_t ms = 0;
  for (const ObservedInstance& o : seen_.instances)
    if (o.instance.function == f) ms = std::max(ms, o.ready_after_ms);
  return ms > 0 ? Millis(ms) : settings_.start_cost;
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
    v.rate = r.traffic.rate(bundle_of(r).cadence.rate_window);
    v.forecast = r.forecast.seen ? r.forecast.expected : v.rate;
    v.arrival_cv = r.traffic.arrival_cv();
    v.queued = r.traffic.queued();
    v.in_flight = r.traffic.in_flight();
    v.concurrency = r.traffic.concurrency(settings_.violation_window);
    v.concurrency_peak = r.traffic.concurrency_peak();
    v.violating =
        r.traffic.violations(settings_.violation_window) > 1 - v.spec.slo.percentile / 100;
    v.last_scale_down = r.last_scale_down;
    v.last_request = r.last_request;
    v.start_cost = start_cost(name);
    s.functions.push_back(std::move(v));
  }
  for (const Device& d : seen_.devices)
    if (serves(d)) s.devices.push_back(d);
  const auto elsewhere = [this](const ObservedInstance& o) {
    const auto d = std::ranges::find(seen_.devices, o.instance.device, &Device::id);
    return d != seen_.devices.end() && !serves(*d);
  };
  for (const ObservedInstance& o : seen_.instances)
    if (alive(o) && !elsewhere(o)) {
      s.instances.push_back(o.instance);
      const auto started = started_.find(o.instance.id);
      s.instances.back().started = started == started_.end() ? Time{} : started->second;
      if (stopping_.contains(o.instance.id)) s.instances.back().state = InstanceState::kDraining;
    }
  for (const auto& [id, order] : ordered_) s.instances.push_back(order.first);
  std::ranges::sort(s.instances, {}, &Instance::id);
  return s;
}

const policy::Bundle& Control::bundle_of(const Runtime& r) const {
  return policy::bundle_of(spec_of(r.stored, r.stored.newest), settings_.bundle);
}

void Control::forecast(Time now) {
  for (const policy::Bundle& bundle : policy::bundles()) {
    const policy::Cadence& c = bundle.cadence;
    if (!due(beats_[bundle.name].measured, c.measure_every, now)) continue;
    const policy::Forecaster* forecaster = policy::find_forecaster(bundle.forecast);
    for (auto& [name, r] : functions_)
      if (&bundle_of(r) == &bundle)
        r.forecast = forecaster->step(r.forecast, r.traffic.rate(c.rate_window), c.rate_window,
                                      r.traffic.inferences_per_request());
  }
}

// Counts the snapshots that differ in more than their time.
void Control::look(const Snapshot& s) {
  if (s.functions == looked_at_.functions && s.instances == looked_at_.instances &&
      s.devices == looked_at_.devices)
    return;
  looked_at_ = s;
  ++looks_;
}

// Policies are pure: what has not changed is decided as before. They run again after a while all
// the same, for what depends on the time alone and for what came to nothing.
void Control::decide(Time now, UnixMillis wall) {
  std::set<const policy::Bundle*> deciding;
  for (const policy::Bundle& bundle : policy::bundles())
    if (due(beats_[bundle.name].decided, bundle.cadence.decide_every, now))
      deciding.insert(&bundle);
  if (deciding.empty()) return;
  Snapshot s = snapshot(now);
  look(s);
  std::erase_if(deciding, [&](const policy::Bundle* bundle) {
    Beat& beat = beats_[bundle->name];
    if (beat.saw == looks_ && now - beat.ran < settings_.decide_at_rest - kSoon / 2) return true;
    beat.ran = now;
    beat.saw = looks_;
    return false;
  });
  if (deciding.empty()) return;
  for (FunctionView& f : s.functions)
    f.due = deciding.contains(&policy::bundle_of(f.spec, settings_.bundle));
  std::set<FunctionName> wants;  // something that it may not get
  if (std::exchange(memories_boot_, seen_.boot_id) != seen_.boot_id) memories_.clear();
  const policy::PlatformPolicy platform{settings_.bundle, settings_.bundle_settings};
  for (const Action& action : policy::decide(s, platform, predictor_, memories_, random_)) {
    if (!std::holds_alternative<StopInstance>(action.what)) wants.insert(action.function);
    if (!held_back(action, now, wall)) carry_out(action, now, wall);
  }
  for (const FunctionView& f : s.functions)
    if (f.due && !wants.contains(f.spec.name)) try_again(f, now);
}

// What could not be had for a function that now wants nothing may be had by the next request: a
// function at zero would be refused for ever.
void Control::try_again(const FunctionView& f, Time now) {
  const auto trouble = troubles_.find({f.spec.name, f.revision});
  if (trouble != troubles_.end() && now < trouble->second.retry_at) return;
  functions_.at(f.spec.name).unavailable.clear();
}

}  // namespace sluice::control
