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

// A function in this namespace belongs to `sluice profile`, which starts and stops its instances.
constexpr std::string_view kProfiling = "sluice-profile";

bool alive(const ObservedInstance& o) {
  return o.instance.state != InstanceState::kGone;
}
bool ours(const ObservedInstance& o) {
  return !o.foreign && o.instance.function.space != kProfiling;
}

std::string base36(uint64_t n, int digits) {
  std::string out;
  for (int i = 0; i < digits; ++i, n /= 36) out += "0123456789abcdefghijklmnopqrstuvwxyz"[n % 36];
  return out;
}

}  // namespace

Result<std::unique_ptr<Control>> Control::open(Store& store, Cluster& cluster, const Clock& clock,
                                               ControlSettings settings) {
  std::unique_ptr<Control> c(new Control(store, cluster, clock, std::move(settings)));
  SLUICE_ASSIGN(functions, store.functions());
  SLUICE_ASSIGN(profiles, store.profiles());
  SLUICE_ASSIGN(accounts, store.accounts());
  SLUICE_ASSIGN(instances, store.instances());
  for (StoredFunction& f : functions) {
    Runtime& r = c->functions_[f.name];
    if (const auto account = accounts.find(to_string(f.name)); account != accounts.end()) {
      c->accounting_.of(f.name) = account_from(account->second);
      const json& j = account->second;
      TrafficTotals t{
          j.value("requests", 0ul),   j.value("ok", 0ul),      j.value("shed", 0ul),
          j.value("failed", 0ul),     j.value("late", 0ul),    j.value("cold_starts", 0ul),
          j.value("inferences", 0ul), j.value("retried", 0ul), {}};
      r.traffic.restore(t);
    }
    SLUICE_ASSIGN(last, store.decisions(f.name, 1));
    if (!last.empty()) r.last_decision = last.front();
    r.stored = std::move(f);
  }
  c->profiles_ = std::move(profiles);
  c->kept_ = std::move(instances);
  c->restore_predictor();
  return c;
}

Control::Control(Store& store, Cluster& cluster, const Clock& clock, ControlSettings settings)
    : store_(store),
      cluster_(cluster),
      clock_(clock),
      settings_(std::move(settings)),
      predictor_(settings_.window),
      next_id_(static_cast<uint64_t>(clock.now().time_since_epoch().count())) {}

// A profile is of a model; every revision that serves the model is known by it.
void Control::restore_predictor() {
  for (const auto& [name, runtime] : functions_)
    for (const Revision& r : runtime.stored.revisions)
      if (const auto found = profiles_.find(r.spec.model.path); found != profiles_.end()) {
        predict::Profile profile = found->second;
        profile.function = name;
        profile.revision = r.number;
        predictor_.set(profile);
      }
}

const StoredFunction* Control::find(const FunctionName& f) const {
  const auto found = functions_.find(f);
  return found == functions_.end() ? nullptr : &found->second.stored;
}

// ---- the loop --------------------------------------------------------------------------------

void Control::step(UnixMillis wall) {
  const Time now = clock_.now();
  observe(now, wall);  // 1. what is
  if (seen_.node_there) {
    reconcile(now, wall);   // 2. what came of what was asked
    settle_rollouts(wall);  // 3. revisions that are ready take over
    if (now - decided_at_ >= settings_.decide_every || somebody_waits()) {
      decide(now, wall);  // 4. what shall be
      decided_at_ = now;
    }
  }
  push_routes();  // 5. the gateway learns of it
  keep(wall);     // 6. nothing is forgotten
}

void Control::observe(Time now, UnixMillis wall) {
  Observation o = cluster_.observe();
  const Nanos elapsed = seen_at_ == Time{} ? Nanos(0) : now - seen_at_;
  if (!o.node_there && seen_.node_there)
    log::warn("the node daemon does not answer: slices stay as they are");
  if (!o.gateway_there && seen_.gateway_there) log::warn("the gateway does not answer");
  if (!o.node_there) {  // what was last seen is the best there is
    o.devices = seen_.devices;
    o.instances = seen_.instances;
    o.boot_id = seen_.boot_id;
  }
  if (elapsed > Nanos(0)) {
    if (o.node_there) accounting_.step(o.instances, o.devices, elapsed);
    const bool restarted = o.gateway_started != gateway_started_;
    std::vector<RateSample> samples;
    for (auto& [name, r] : functions_) {
      const auto t = std::ranges::find(o.traffic, name, &ObservedTraffic::function);
      if (t == o.traffic.end()) continue;
      r.traffic.step(*t, elapsed, restarted);
      samples.push_back({name, wall / 1000,
                         static_cast<double>(r.traffic.last_requests()) / seconds(elapsed),
                         r.traffic.queued(), r.traffic.in_flight(), r.traffic.last_violations()});
    }
    if (o.gateway_there) gateway_started_ = o.gateway_started;
    if (const auto saved = store_.add_rates(samples); !saved.ok())
      log::warn("{}", saved.error().message);
  }
  seen_ = std::move(o);
  seen_at_ = now;
}

void Control::reconcile(Time now, UnixMillis wall) {
  for (const ObservedInstance& o : seen_.instances) {
    const Instance& i = o.instance;
    ordered_.erase(i.id);
    if (!ours(o)) continue;
    if (!alive(o)) {
      if (!stopping_.erase(i.id)) {
        record({.at = wall,
                .function = i.function,
                .action = "lost",
                .subject = i.id,
                .reason = {
                    "instance-ended", "Instance " + i.id + " ended by itself: " + o.error, {}}});
        // A model that cannot be loaded ends every start: say so to those who wait.
        if (auto f = functions_.find(i.function);
            f != functions_.end() && i.state == InstanceState::kGone && o.ready_after_ms == 0)
          f->second.unavailable = "its last instance could not start: " + o.error;
      }
      (void)cluster_.stop(i.id, Nanos(0));  // forget it
    } else if (find(i.function) == nullptr && i.state != InstanceState::kDraining) {
      log::info("{}: its function is gone", i.id);
      (void)cluster_.stop(i.id, settings_.drain);
      stopping_.insert(i.id);
    } else if (i.state == InstanceState::kReady) {
      if (auto f = functions_.find(i.function); f != functions_.end())
        f->second.unavailable.clear();
    }
  }
  std::erase_if(ordered_, [&](const auto& entry) {
    const auto& [instance, at] = entry.second;
    if (now - at < settings_.start_patience) return false;
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

// The newest revision takes over when as many of its instances are ready as its share of the
// traffic needs to begin with: one. A canary below 100 % leaves the old one serving beside it.
void Control::settle_rollouts(UnixMillis wall) {
  for (auto& entry : functions_) {
    const FunctionName& name = entry.first;
    StoredFunction& f = entry.second.stored;
    if (f.newest == f.serving || spec_of(f, f.newest).canary_traffic_percent < 100) continue;
    const bool ready = std::ranges::any_of(seen_.instances, [&](const ObservedInstance& o) {
      return o.instance.function == name && o.instance.revision == f.newest &&
             o.instance.state == InstanceState::kReady;
    });
    if (!ready) continue;
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
  }
}

bool Control::somebody_waits() const {
  return std::ranges::any_of(functions_, [&](const auto& entry) {
    if (entry.second.traffic.queued() == 0) return false;
    const bool coming = std::ranges::any_of(
        ordered_, [&](const auto& o) { return o.second.first.function == entry.first; });
    return !coming && std::ranges::none_of(seen_.instances, [&](const ObservedInstance& o) {
      return o.instance.function == entry.first && (o.instance.state == InstanceState::kReady ||
                                                    o.instance.state == InstanceState::kStarting);
    });
  });
}

Snapshot Control::snapshot(Time now) const {
  Snapshot s{.now = now};
  for (const auto& [name, r] : functions_) {
    FunctionView v{.spec = spec_of(r.stored, r.stored.newest), .revision = r.stored.newest};
    if (r.stored.serving != r.stored.newest) {
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

void Control::decide(Time now, UnixMillis wall) {
  for (auto& [name, r] : functions_) {
    const FunctionSpec& spec = spec_of(r.stored, r.stored.newest);
    const policy::Bundle* bundle =
        policy::find_bundle(spec.policy.empty() ? settings_.bundle : spec.policy);
    if (bundle == nullptr) bundle = policy::find_bundle(settings_.bundle);
    const policy::Forecaster* forecaster = policy::find_forecaster(bundle->forecast);
    r.forecast =
        forecaster->step(r.forecast, r.traffic.rate(settings_.rate_window), settings_.rate_window);
  }
  for (const Action& action :
       policy::decide(snapshot(now), settings_.bundle, settings_.scale, predictor_))
    carry_out(action, now, wall);
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
    stopping_.insert(stop->instance);
    push_routes();  // the gateway gives it no more before it drains
    outcome = cluster_.stop(stop->instance, settings_.drain);
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
    // Said when it begins and when its reason changes, not every two seconds.
    const bool said = r.last_decision && r.last_decision->action == "unmet" &&
                      r.last_decision->reason.text == action.reason.text;
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

void Control::keep(UnixMillis wall) {
  std::vector<StoredInstance> now;
  for (const ObservedInstance& o : seen_.instances)
    if (alive(o) && ours(o)) {
      now.push_back({o.instance, seen_.boot_id, o.pid, o.start_time});
      now.back().instance.started = Time{};
    }
  const auto same = [](const StoredInstance& a, const StoredInstance& b) {
    return a.instance == b.instance && a.boot_id == b.boot_id && a.pid == b.pid &&
           a.start_time == b.start_time;
  };
  if (!std::ranges::equal(now, kept_, same)) {
    if (const auto saved = store_.save_instances(now); saved.ok())
      kept_ = std::move(now);
    else
      log::warn("{}", saved.error().message);
  }
  if (wall / 1000 % 5 != 0) return;  // what accounts lose by a crash is five seconds
  const auto saved = store_.transaction([&]() -> Result<void> {
    for (const auto& [name, r] : functions_) {
      json account = to_json(accounting_.of(name));
      const TrafficTotals& t = r.traffic.totals();
      account.update({{"requests", t.requests},
                      {"ok", t.ok},
                      {"shed", t.shed},
                      {"failed", t.failed},
                      {"late", t.late},
                      {"cold_starts", t.cold_starts},
                      {"inferences", t.inferences},
                      {"retried", t.retried}});
      SLUICE_TRY(store_.save_account(to_string(name), account));
    }
    return {};
  });
  if (!saved.ok()) log::warn("{}", saved.error().message);
}

// ---- what users ask for ----------------------------------------------------------------------

Result<std::vector<Applied>> Control::apply(std::vector<FunctionSpec> specs, bool dry,
                                            UnixMillis wall) {
  std::vector<Applied> out;
  for (FunctionSpec& spec : specs) {  // all are checked before one is changed
    const std::string name = to_string(spec.name);
    if (const auto checked = check_model(spec); !checked.ok()) return within(name, checked.error());
    std::optional<Nanos> fastest;
    if (const auto p = profiles_.find(spec.model.path); p != profiles_.end())
      for (const auto& point : p->second.points)
        if (point.at.batch == 1)
          fastest = std::min(fastest.value_or(point.latency_p50), point.latency_p50);
    if (const auto checked = check_feasible(spec, seen_.devices, fastest); !checked.ok())
      return within(name, checked.error());
    const StoredFunction* before = find(spec.name);
    if (before == nullptr) {
      out.push_back({spec.name, 1, "created", {}});
    } else {
      const FunctionSpec& newest = spec_of(*before, before->newest);
      const bool same = newest == spec;
      const int last = before->revisions.back().number;
      out.push_back({spec.name, same ? before->newest : last + 1, same ? "unchanged" : "changed",
                     difference(newest, spec)});
    }
  }
  if (dry) return out;
  for (size_t k = 0; k < specs.size(); ++k) {
    if (out[k].what == "unchanged") continue;
    const Revision revision{specs[k].name, out[k].revision, specs[k], wall};
    Runtime& r = functions_[specs[k].name];
    const int serving = r.stored.serving == 0 ? revision.number : r.stored.serving;
    if (const auto saved = store_.add_revision(revision, serving); !saved.ok()) {
      if (r.stored.revisions.empty()) functions_.erase(specs[k].name);
      return saved.error();
    }
    r.stored.name = specs[k].name;
    r.stored.newest = revision.number;
    r.stored.serving = serving;
    r.stored.revisions.push_back(revision);
    r.unavailable.clear();
    record({.at = wall,
            .function = specs[k].name,
            .action = "apply",
            .subject = revision_id(specs[k].name, revision.number),
            .reason = {
                out[k].what, "Revision " + std::to_string(revision.number) + " was applied.", {}}});
  }
  restore_predictor();
  decided_at_ = Time{};  // at the next step, not in two seconds
  return out;
}

Result<int> Control::rollback(const FunctionName& name, int to, UnixMillis wall) {
  const auto found = functions_.find(name);
  if (found == functions_.end())
    return Error{ErrorKind::kNotFound, "function '" + to_string(name) + "' not found"};
  StoredFunction& f = found->second.stored;
  if (to == 0)
    for (const Revision& r : f.revisions)
      if (r.number < f.newest) to = r.number;
  const bool known =
      std::ranges::any_of(f.revisions, [&](const Revision& r) { return r.number == to; });
  if (!known) {
    std::string all;
    for (const Revision& r : f.revisions)
      all += (all.empty() ? "" : ", ") + std::to_string(r.number);
    return Error{ErrorKind::kInvalid, "to: " +
                                          (to == 0 ? "there is no earlier revision"
                                                   : std::to_string(to) + " is no revision") +
                                          "; there are " + all};
  }
  if (to == f.newest) return to;
  const int from = f.newest;
  // A rollout under way ends: what serves goes on until the one rolled back to is ready.
  SLUICE_TRY(store_.set_revisions(name, to, f.serving));
  f.newest = to;
  found->second.unavailable.clear();
  record({.at = wall,
          .function = name,
          .action = "rollback",
          .subject = revision_id(name, to),
          .reason = {"asked",
                     "Rolled back from revision " + std::to_string(from) + " to " +
                         std::to_string(to) + ".",
                     {}}});
  decided_at_ = Time{};
  return to;
}

Result<void> Control::remove(const FunctionName& name, UnixMillis wall) {
  if (find(name) == nullptr)
    return Error{ErrorKind::kNotFound, "function '" + to_string(name) + "' not found"};
  record({.at = wall,
          .function = name,
          .action = "delete",
          .subject = to_string(name),
          .reason = {"asked", "Deleted.", {}}});
  SLUICE_TRY(store_.remove_function(name));
  functions_.erase(name);
  accounting_.forget(name);
  return {};
}

Result<void> Control::set_drained(const DeviceId& device, bool drained, UnixMillis wall) {
  if (std::ranges::none_of(seen_.devices, [&](const Device& d) { return d.id == device; }))
    return Error{ErrorKind::kNotFound, "device '" + device + "' not found"};
  SLUICE_TRY(cluster_.set_drained(device, drained));
  for (Device& d : seen_.devices)
    if (d.id == device) d.drained = drained;
  record({.at = wall,
          .action = drained ? "drain" : "undrain",
          .subject = device,
          .reason = {"asked",
                     "Device " + device +
                         (drained ? " takes no more instances." : " takes instances again."),
                     {}}});
  decided_at_ = Time{};
  return {};
}

Result<void> Control::set_profile(const std::string& model_path, const predict::Profile& profile) {
  SLUICE_TRY(store_.save_profile(model_path, profile));
  profiles_[model_path] = profile;
  restore_predictor();
  decided_at_ = Time{};
  return {};
}

}  // namespace sluice::control
