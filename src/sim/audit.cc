#include "sim/audit.h"

#include <algorithm>

namespace sluice::sim {
namespace {

constexpr Nanos kKnown = kMostTick;
constexpr Nanos kIdleMost = Seconds(45);
constexpr Nanos kStarted = Seconds(15), kBackoff = Seconds(60);

Error violated(const std::string& what) {
  return {ErrorKind::kInternal, "invariant: " + what};
}

}  // namespace

Result<void> Audit::check(const control::Control& control, Time now) {
  if (cluster_.faults().disturb_orders()) disturbed_ = now;
  SLUICE_TRY(check_instances(control, now));
  SLUICE_TRY(check_replicas(control, now));
  if (const Request* r = cluster_.door().overdue(now - 2 * FrontDoor::kTick))
    return violated("a request of " + r->function.name + " is open beyond its timeout");
  return {};
}

// A training job's worker has no requests.
bool Audit::is_worker(const control::ObservedInstance& o) const {
  return std::ranges::find(scenario_.functions, o.instance.function, &FunctionSpec::name) ==
         scenario_.functions.end();
}

Result<void> Audit::check_instances(const control::Control& control, Time now) {
  for (auto& [id, phase] : phases_) phase.there = false;
  std::string wrong;
  cluster_.each_instance([&](const control::ObservedInstance& o) {
    const InstanceId& id = o.instance.id;
    const bool routed = cluster_.door().routes_to(o.instance);
    Phase& phase = phases_.try_emplace(id, Phase{o.instance.state, routed, now}).first->second;
    if (phase.state != o.instance.state || phase.routed != routed)
      phase = {o.instance.state, routed, now};
    phase.there = true;
    const Nanos lasted = now - std::max(phase.since, disturbed_);
    if (lasted > kKnown && control::find(control.seen().instances, id) == nullptr)
      wrong = id + " runs and the loop does not know it";
    if (lasted > kKnown && phase.state == InstanceState::kGone) wrong = id + " is not forgotten";
    if (lasted > kIdleMost && phase.state == InstanceState::kReady && !routed && !is_worker(o))
      wrong = id + " is ready, gets no requests and does not end";
  });
  std::erase_if(phases_, [](const auto& p) { return !p.second.there; });
  return wrong.empty() ? Result<void>() : violated(wrong);
}

// Whether an empty device would hold it, and answer one request in time.
bool Audit::could_start(const FunctionSpec& spec) const {
  for (const control::Profile& p : scenario_.profiles) {
    if (p.model != spec.model_on(p.device).path) continue;
    if (!cluster_.has_empty_device(p.device, p.memory)) continue;
    const auto one = predictor_.predict(
        {.function = spec.name, .revision = 1, .variant = "", .device = p.device},
        {1, kWhole, kWhole});
    const Nanos objective = spec.inference().slo.latency;
    if (one && (objective == Nanos(0) || one->median <= objective)) return true;
  }
  return false;
}

Result<void> Audit::check_replicas(const control::Control& control, Time now) {
  std::map<FunctionName, int> replicas;
  cluster_.each_instance([&](const control::ObservedInstance& o) {
    if (alive(o) && o.instance.state != InstanceState::kDraining) ++replicas[o.instance.function];
  });
  for (const FunctionSpec& spec : scenario_.functions) {
    const int least = spec.inference().min_replicas, present = replicas[spec.name];
    const control::Starts::Trouble* trouble = control.start_trouble(spec.name, 1);
    const bool is_given_up = trouble != nullptr && trouble->given_up;
    if (present >= least || is_given_up || !could_start(spec)) {
      short_since_.erase(spec.name);
      continue;
    }
    const Time since = short_since_.try_emplace(spec.name, now).first->second;
    const Nanos bound = kStarted + (trouble != nullptr ? kBackoff : Nanos(0));
    if (now - std::max(since, disturbed_) > bound)
      return violated(spec.name.name + " has " + std::to_string(present) + " of its minReplicas, " +
                      std::to_string(least) + ", beside an empty device");
  }
  return {};
}

}  // namespace sluice::sim
