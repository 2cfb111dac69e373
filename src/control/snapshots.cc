#include "control/snapshots.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <tuple>
#include <utility>

#include "control/routes.h"
#include "control/training.h"

namespace sluice::control {
namespace {

// Returns whether that changes it.
template <class T>
bool set(T& field, const T& value) {
  if (field == value) return false;
  field = value;
  return true;
}

// The last bits of a rate are noise of its sum, and no change.
bool set(double& field, double value) {
  constexpr double kNoise = 1e-9;
  if (std::abs(field - value) <= kNoise * std::abs(value)) return false;
  field = value;
  return true;
}

std::vector<OlderRevision> older_revisions(const FunctionState& f, int wanted) {
  const int serving = f.stored.serving;
  if (serving == wanted || !spec_of(f.stored, wanted).is_inference()) return {};
  const int percent = spec_of(f.stored, wanted).inference().canary_traffic_percent;
  return {{serving, spec_of(f.stored, serving), percent < 100 ? 100 - percent : 100}};
}

// A new revision's initialScale is the least that policies may keep, for its first two minutes.
bool set_spec(FunctionSpec& spec, const StoredFunction& f, int revision, UnixMillis wall) {
  constexpr UnixMillis kFirst = 120'000;
  const FunctionSpec& stated = spec_of(f, revision);
  if (!stated.is_inference() || stated.inference().initial_scale == 0) return set(spec, stated);
  const auto known = std::ranges::find(f.revisions, revision, &Revision::number);
  if (known == f.revisions.end() || wall - known->created >= kFirst) return set(spec, stated);
  FunctionSpec raised = stated;
  InferenceSpec& s = raised.inference();
  s.min_replicas = std::max(s.min_replicas, s.initial_scale);
  return set(spec, raised);
}

// What a job has done by now is no change: plans see it when they decide next.
bool set_job(std::optional<JobView>& job, std::optional<JobView> now) {
  const auto state = [](const JobView& j) {
    return std::tuple(j.phase, j.submitted, j.samples, j.step.has_value(), j.noise > 0);
  };
  const bool changed = job.has_value() != now.has_value() ||
                       (now && (state(*job) != state(*now) || job->trouble != now->trouble));
  job = std::move(now);
  return changed;
}

// Returns whether a policy may see a difference.
bool update(FunctionView& v, const FunctionState& f, int wanted, const SnapshotSettings& settings) {
  bool changed = set_spec(v.spec, f.stored, wanted, settings.wall);
  changed |= set(v.revision, wanted);
  changed |= set(v.older, older_revisions(f, wanted));
  const Traffic& t = f.traffic;
  changed |= set(v.rate, t.rate(f.bundle->cadence.rate_window));
  changed |= set(v.forecast, f.forecast.seen ? f.forecast.expected : v.rate);
  changed |= set(v.forecast_peak, f.forecast_peak.most());
  if (v.arrivals != f.arrivals) v.arrivals = f.arrivals, changed = true;
  const Traffic::Gaps gaps = t.gaps();
  changed |= set(v.arrival_gap, gaps.mean);
  changed |= set(v.arrival_cv, gaps.cv);
  changed |= set(v.latency, f.latency);
  changed |= set(v.queued, t.queued());
  changed |= set(v.in_flight, t.in_flight());
  changed |= set(v.concurrency, t.concurrency(settings.violation_window));
  changed |= set(v.concurrency_peak, t.concurrency_peak());
  if (v.spec.is_inference()) {
    const double allowed = 1 - v.spec.inference().slo.percentile / 100;
    changed |= set(v.violating, t.violations(settings.violation_window) > allowed);
  }
  changed |= set_job(v.job, job_view(v.spec, f.job, f.submitted, f.present.alive));
  changed |= set(v.last_scale_down, f.last_scale_down);
  const int64_t ms = f.present.longest_start_ms;
  changed |= set(v.start_cost, ms > 0 ? Nanos(Millis(ms)) : settings.start_cost);
  v.last_request = f.last_request;
  return changed;
}

// Gives a list its elements one after the other, and copies those that differ.
template <class T>
class ListUpdate {
 public:
  explicit ListUpdate(std::vector<T>& list) : list_(list) {}

  void next(const T& value) {
    if (count_ == list_.size()) {
      list_.push_back(value);
      changed_ = true;
    } else {
      changed_ |= set(list_[count_], value);
    }
    ++count_;
  }
  // Returns whether anything has changed.
  bool finish() {
    changed_ |= count_ < list_.size();
    list_.resize(count_);
    return changed_;
  }

 private:
  std::vector<T>& list_;
  size_t count_ = 0;
  bool changed_ = false;
};

// The same for instances, by id: unchanged ones are moved, also where others come or go.
class InstancesUpdate {
 public:
  InstancesUpdate(Snapshot& snapshot, SnapshotChanges& changes)
      : snapshot_(snapshot), changes_(changes), before_(std::move(snapshot.instances)) {
    snapshot_.instances.clear();
    snapshot_.instances.reserve(before_.size() + 16);
    at_ = before_.begin();
  }

  void next(const Instance& i, InstanceState state, Time started) {
    for (; at_ != before_.end() && at_->id < i.id; ++at_) changed(at_->function);
    const bool known = at_ != before_.end() && at_->id == i.id;
    if (known)
      snapshot_.instances.push_back(std::move(*at_++));
    else
      snapshot_.instances.push_back(i);
    Instance& now = snapshot_.instances.back();
    const std::pair before(now.state, now.started);
    now.state = i.state, now.started = i.started;
    const bool differs = set(now, i);
    now.state = state, now.started = started;
    if (!known || differs || before != std::pair(state, started)) changed(now.function);
  }
  void finish() {
    for (; at_ != before_.end(); ++at_) changed(at_->function);
  }

 private:
  void changed(const FunctionName& name) {
    changes_.instances = true;
    const auto name_of = [](const FunctionView& v) -> const FunctionName& { return v.spec.name; };
    const auto f = std::ranges::lower_bound(snapshot_.functions, name, {}, name_of);
    if (f == snapshot_.functions.end() || f->spec.name != name) return;
    changes_.functions[static_cast<size_t>(f - snapshot_.functions.begin())] = true;
  }

  Snapshot& snapshot_;
  SnapshotChanges& changes_;
  std::vector<Instance> before_;
  std::vector<Instance>::iterator at_;
};

void update_instances(Snapshot& s, SnapshotChanges& changes, const Observation& seen,
                      const Starts& starts, const Stops& stops) {
  const auto& ordered = starts.pending_instances();
  auto order = ordered.begin();
  InstancesUpdate update(s, changes);
  for (const ObservedInstance& o : seen.instances) {  // both are by id
    const Instance& i = o.instance;
    for (; order != ordered.end() && order->first < i.id; ++order)
      update.next(order->second, order->second.state, order->second.started);
    if (!alive(o)) continue;
    update.next(i, stops.asked(i.id) ? InstanceState::kDraining : i.state, starts.decided_at(i.id));
  }
  for (; order != ordered.end(); ++order)
    update.next(order->second, order->second.state, order->second.started);
  update.finish();
}

}  // namespace

SnapshotChanges update(Snapshot& s, const Functions& functions, const Observation& seen,
                       const Rollouts& rollouts, const Starts& starts, const Stops& stops,
                       const SnapshotSettings& settings, Time now) {
  SnapshotChanges changes;
  s.now = now;
  s.functions.resize(functions.size());
  changes.functions.reserve(functions.size());
  auto view = s.functions.begin();
  for (const auto& [name, f] : functions)
    changes.functions.push_back(update(*view++, f, rollouts.wanted(f.stored), settings));
  ListUpdate devices(s.devices);
  for (const Device& d : seen.devices) devices.next(d);
  ListUpdate nodes(s.nodes);
  for (const ObservedNode& n : seen.nodes) nodes.next(n.node);
  changes.devices = devices.finish();
  changes.devices |= nodes.finish();
  update_instances(s, changes, seen, starts, stops);
  return changes;
}

}  // namespace sluice::control
