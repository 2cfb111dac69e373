#include "control/control.h"

#include <algorithm>

#include "base/log.h"
#include "control/metrics_pages.h"
#include "control/refined.h"
#include "control/unreachable.h"

namespace sluice::control {
namespace {

constexpr Nanos kSoon = Millis(25);          // the next tick, while something starts
constexpr Nanos kNodesAnswer = Seconds(30);  // in which each existing node answers

// Warns once of each node and gateway that stops answering.
void warn_of_silence(const Observation& before, const Observation& now) {
  for (const ObservedNode& n : now.nodes) {
    const ObservedNode* then = n.node.reachable ? nullptr : find_node(before, n.node.name);
    if (then != nullptr && then->node.reachable)
      log::warn("the node daemon of {} does not answer: slices stay as they are", n.node.name);
  }
  for (const ObservedGateway& g : now.gateways) {
    if (g.there) continue;
    const auto then = std::ranges::find(before.gateways, g.name, &ObservedGateway::name);
    if (then != before.gateways.end() && then->there) log::warn("{} does not answer", g.name);
  }
}

// What decisions count on. A profile by which no slice would be in time, only because it is an
// estimate or because of what live instances need now, would have the function not served at all:
// better late than that.
std::optional<std::vector<MeasuredPoint>> counted(const Profile& p, const FunctionSpec& spec) {
  if (!spec.is_inference() || p.in_time_alone(spec.inference().slo.latency)) return p.live_points();
  if (p.estimated > 0) return std::nullopt;
  return p.points;
}

}  // namespace

Control::Control(const Ports& ports, ControlSettings settings)
    : desired_(ports.desired),
      journal_(ports.journal),
      cluster_(ports.cluster),
      predictor_(ports.predictor),
      clock_(ports.clock),
      training_(ports.training),
      models_(ports.models),
      settings_(std::move(settings)),
      began_(clock_.now()),
      next_id_(static_cast<uint64_t>(clock_.now().time_since_epoch().count())),
      starts_({settings_.patience, settings_.retry_most}),
      stops_(settings_.patience),
      rollouts_({settings_.start_tries, settings_.rollout_patience}),
      counts_(settings_.account_every),
      policies_({settings_.bundle, settings_.bundle_settings, settings_.plan, settings_.loans},
                settings_.seed, settings_.decide_at_rest),
      keeper_({functions_, accounting_, rollouts_, counts_, policies_}) {}

Result<std::unique_ptr<Control>> Control::open(const Ports& ports, ControlSettings settings) {
  const policy::Bundle* bundle = policy::find_bundle(settings.bundle);
  if (bundle == nullptr)
    return Error{ErrorKind::kInvalid, "the policy '" + settings.bundle + "' is not known"};
  if (const auto set = bundle->settings.with(settings.bundle_settings); !set.ok())
    return within("policy " + settings.bundle, set.error());
  if (!settings.plan.empty() && policy::find_plan(settings.plan) == nullptr)
    return Error{ErrorKind::kInvalid, "the plan '" + settings.plan + "' is not known"};
  std::unique_ptr<Control> c(new Control(ports, std::move(settings)));
  SLUICE_TRY(c->restore());
  return c;
}

Result<void> Control::restore() {
  SLUICE_ASSIGN(functions, desired_.functions());
  SLUICE_ASSIGN(profiles, desired_.profiles());
  SLUICE_ASSIGN(accounts, journal_.accounts());
  SLUICE_ASSIGN(instances, journal_.instances());
  SLUICE_ASSIGN(noticed, journal_.notices());
  for (StoredFunction& f : functions) {
    all_read_ = all_read_ && f.complete;
    if (!take_in(f)) continue;
    SLUICE_ASSIGN(last, journal_.decisions(f.name, 1));
    decisions_.know(f.name, last.empty() ? std::nullopt : std::optional(last.front()));
    FunctionState& state = functions_[f.name];
    SLUICE_ASSIGN(hours, journal_.arrivals(f.name));
    for (const ArrivalHour& h : hours) state.arrivals->restore(h.hour, h.arrivals);
    state.stored = std::move(f);
    state.bundle = &policies_.bundle_of(spec_of(state.stored, state.stored.newest));
  }
  profiles_ = std::move(profiles);
  notices_ = Notices(std::move(noticed));
  keeper_.restore(accounts, std::move(instances));
  return {};
}

// A profile without a type counts for the present types: what is taught depends on them.
void Control::see_types() {
  std::vector<DeviceType> types;
  for (const Device* d : one_of_each_type(seen_.devices)) types.push_back(type_of(*d));
  if (types == types_) return;
  types_ = std::move(types);
  teach_all();
}

// A profile belongs to a model; every revision that serves the model uses it.
void Control::teach(const FunctionName& name) {
  predictor_.forget(name);
  const StoredFunction* f = find(name);
  if (f == nullptr) return;
  for (const Revision& r : f->revisions)
    for (const DeviceType& type : types_)
      if (const Profile* p = profiles_.find(r.spec.model_on(type), type); p != nullptr)
        if (auto points = counted(*p, r.spec))
          predictor_.learn({{.function = name, .revision = r.number, .variant = "", .device = type},
                            p->memory,
                            std::move(*points),
                            p->estimated});
}

void Control::teach_all() {
  for (const auto& [name, state] : functions_) teach(name);
}

const StoredFunction* Control::find(const FunctionName& f) const {
  const auto found = functions_.find(f);
  return found == functions_.end() ? nullptr : &found->second.stored;
}

// ---- the loop --------------------------------------------------------------------------------

void Control::step(UnixMillis wall) {
  const Time now = clock_.now();
  last_tick_ = {};
  say_apart(wall);
  observe(now, wall);
  settings_.on_phase("observe");
  if (any_node_there(seen_)) reconcile(now, wall);
  settings_.on_phase("reconcile");
  count(now, wall);
  settings_.on_phase("count");
  if (knows_its_nodes(now)) carry_out(decide(now, wall), now, wall);
  settings_.on_phase("act");
  push_routes(now);
  settings_.on_phase("routes");
  keep();
  settings_.on_phase("keep");
}

// A new loop does not know what runs on a node that does not answer. So it waits once for every
// node, for kNodesAnswer in all, before it decides.
bool Control::knows_its_nodes(Time now) {
  met_nodes_ = met_nodes_ || all_nodes_there(seen_) || now - began_ >= kNodesAnswer;
  return met_nodes_ && any_node_there(seen_);
}

Nanos Control::next_step() const {
  if (starts_.pending() || stops_.waiting()) return kSoon;
  const auto starts = [](const ObservedInstance& o) {
    return o.instance.state == InstanceState::kStarting && ours(o) && o.reachable;
  };
  if (std::ranges::any_of(seen_.instances, starts)) return kSoon;
  return functions_.empty() ? Seconds(1) : settings_.tick_every;
}

static bool faults_changed(const Observation& before, const Observation& now) {
  return std::ranges::any_of(now.devices, [&](const Device& d) {
    const Device* then = find(before.devices, d.id);
    return then != nullptr ? then->fault != d.fault : !d.fault.empty();
  });
}

void Control::observe(Time now, UnixMillis wall) {
  for (StoredFunction& f : desired_.changes()) adopt(std::move(f));
  Observation o = cluster_.observe();
  warn_of_silence(seen_, o);
  keep_unreachable(seen_, o);
  if (any_node_there(o))
    for (Decision& d : notices_.step(seen_, o, wall)) decisions_.record(std::move(d));
  counts_.observe(o.gateways);
  const bool otherwise_routed = faults_changed(seen_, o);
  seen_ = std::move(o);
  if (otherwise_routed) decide_at_once();
  see_types();
  see_jobs(now, wall);
}

// Counts requests, holdings and use.
void Control::count(Time now, UnixMillis wall) {
  counts_.count(seen_, functions_, now, wall);
  if (!counts_.account(seen_, functions_, accounting_, now, wall)) return;
  if (any_node_there(seen_) && counts_.countable()) {
    measurements_.step(seen_.instances, functions_, now);
    groups_.step(seen_, functions_, *measurements_.latest(), now);
  }
  cluster_.watch_pages(metrics_pages(functions_, seen_.instances));
  refine(now, wall);
  keeper_.counted();
}

// Every ten seconds, which is as long as a measurement of an instance.
void Control::refine(Time now, UnixMillis wall) {
  if (!settings_.refine || now - refined_at_ < Seconds(10)) return;
  refined_at_ = now;
  snapshot_.measured = measurements_.latest();
  const auto before = std::exchange(needs_, {});
  for (const auto& [key, evidence] : evidence_of_profiles()) {
    const auto known = profiles_.all().find(key);
    if (known == profiles_.all().end()) continue;
    const std::optional<Need> need = need_of(known->second, evidence);
    if (!need) continue;
    const auto then = before.find(key);
    const auto better =
        refined(known->second, *need, then != before.end() ? &then->second : nullptr);
    if (!better || better->live == known->second.live) needs_.emplace(key, *need);
    if (better) correct(known->second, *better, evidence, wall);
  }
}

void Control::correct(const Profile& known, const Profile& better,
                      const std::vector<Evidence>& evidence, UnixMillis wall) {
  const Reason reason = said_of(known, better);
  if (const auto set = set_profile(better); !set.ok())
    return log::warn("a profile stays as it was: {}", set.error().message);
  std::set<FunctionName> functions;
  for (const Evidence& e : evidence) functions.insert(e.instance->function);
  for (const FunctionName& f : functions)
    decisions_.record({.at = wall,
                       .function = f,
                       .action = "profile",
                       .subject = better.device.name,
                       .reason = reason});
}

// Of each profile, its ready instances on one device. An instance is left out until its last ten
// seconds are all after its start. So is one on several cores: how much work it does at a time does
// not show how long a request takes.
std::map<Profiles::Key, std::vector<Evidence>> Control::evidence_of_profiles() const {
  std::map<Profiles::Key, std::vector<Evidence>> found;
  if (profiles_.all().empty()) return found;
  for (const ObservedInstance& o : seen_.instances) {
    const StoredFunction* f = find(o.instance.function);
    const Device* device = control::find(seen_.devices, o.instance.device());
    const InstanceMeasurements* measured = measurements_of(snapshot_, o.instance.id);
    if (f == nullptr || device == nullptr || measured == nullptr || !ours(o) ||
        o.instance.state != InstanceState::kReady || o.instance.parts.size() != 1)
      continue;
    if (Seconds(measurements_.steps_of(o.instance.id)) < Millis(o.ready_after_ms) + Seconds(12))
      continue;
    if (device->kind == DeviceKind::kCpu && device->millicores > 1000) continue;
    const FunctionSpec& spec = spec_of(*f, o.instance.revision);
    if (!spec.is_inference()) continue;
    const DeviceType type = type_of(*device);
    if (const Profile* known = profiles_.find(spec.model_on(type), type); known != nullptr)
      found[{known->name(), known->device}].push_back({&o.instance, measured, device});
  }
  return found;
}

std::vector<Action> Control::decide(Time now, UnixMillis wall) {
  policies_.measure(functions_, now);
  if (!policies_.due(now)) return {};
  const SnapshotChanges changes =
      update(snapshot_, functions_, seen_, rollouts_, starts_, stops_,
             {settings_.violation_window, settings_.start_cost, wall}, now);
  snapshot_.measured = measurements_.latest();
  settings_.on_phase("snapshot");
  std::vector<Action> actions = policies_.decide(snapshot_, changes, predictor_, settings_.boot_id);
  settings_.on_phase("decide");
  return actions;
}

void Control::decide_at_once() {
  policies_.at_once();
  routes_.mark_stale();
}

// A program's last words are for its owner, not for all that call it.
static std::string without_log(const std::string& why) {
  return why.substr(0, why.find("; its log ends: "));
}

void Control::push_routes(Time now) {
  std::vector<RoutedFunction> routed;
  routed.reserve(functions_.size());
  for (const auto& [name, f] : functions_)
    if (spec_of(f.stored, f.stored.newest).is_inference())
      routed.push_back({&f.stored, f.bundle->route, without_log(f.unavailable)});
  if (routes_.push(cluster_, seen_, routed, stops_, predictor_)) stops_.left_out();
  if (any_node_there(seen_)) drain_idle(now);
}

void Control::drain_idle(Time now) {
  std::set<InstanceId> busy;  // at any gateway
  if (stops_.waiting())
    for (const ObservedGateway& g : seen_.gateways) busy.insert(g.busy.begin(), g.busy.end());
  for (const Stops::Order& order : stops_.due(now, routes_.have_them(seen_) ? &busy : nullptr)) {
    const ObservedInstance* o = control::find(seen_.instances, order.id);
    if (o != nullptr && !o->reachable) continue;  // it is due again after `patience`
    if (order.again) log::info("{}: it was stopped but runs: again", order.id);
    const auto told = cluster_.stop(order.id, order.drain);
    if (!told.ok()) log::warn("{}: {}", order.id, told.error().message);
  }
}

void Control::keep() {
  if (clock_.now() < write_again_) return;
  JournalEntry entry = keeper_.changes(seen_);
  entry.decisions = decisions_.take();
  if (entry.empty()) return;
  if (const auto written = journal_.write(entry); written.ok()) {
    decisions_.written(entry.decisions);
    keeper_.written(entry);
  } else {
    decisions_.not_written(std::move(entry.decisions));
    keeper_.not_written();
    not_written(written.error());
  }
}

void Control::not_written(const Error& fault) {
  constexpr Nanos kPause = Seconds(1);
  log::warn("{}", fault.message);
  write_again_ = clock_.now() + kPause;
}

void Control::close() {
  write_again_ = {};
  keeper_.count_all();
  keep();
}

// Between two ticks, for a user's request.
void Control::write_decisions() {
  JournalEntry entry{.decisions = decisions_.take()};
  if (const auto written = journal_.write(entry); written.ok()) {
    decisions_.written(entry.decisions);
  } else {
    log::warn("{}", written.error().message);
    decisions_.not_written(std::move(entry.decisions));
  }
}

}  // namespace sluice::control
