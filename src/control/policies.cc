#include "control/policies.h"

#include <utility>

namespace sluice::control {
namespace {

constexpr Nanos kEarly = Millis(25) / 2;  // a tick earlier by at most so much counts as on time

// Returns whether it is due again.
bool again(Time& last, Nanos every, Time now) {
  if (now - last < every - kEarly) return false;
  last = now;
  return true;
}

// Without a request for a minute there is no rate to forecast, whatever margin a filter keeps.
bool rests(const FunctionState& f, Time now) {
  constexpr Nanos kRests = Seconds(60);
  return f.traffic.totals().requests == 0 || now - f.last_request >= kRests;
}

}  // namespace

void Policies::at_once() {
  for (auto& [name, period] : periods_) period.decided = {};
  for (auto& [name, seen] : seen_) seen.ran = {};
}

void Policies::measure(Functions& functions, Time now) {
  for (const policy::Bundle& bundle : policy::bundles()) {
    const policy::Cadence& c = bundle.cadence;
    if (!again(periods_[bundle.name].measured, c.measure_every, now)) continue;
    const policy::Forecaster* forecaster = policy::find_forecaster(bundle.forecast);
    for (auto& [name, f] : functions) {
      if (f.bundle != &bundle) continue;
      if (rests(f, now))
        f.forecast = {};
      else
        f.forecast = forecaster->step(f.forecast, f.traffic.rate(c.rate_window), c.rate_window,
                                      f.traffic.inferences_per_request());
      f.forecast_peak.add(now, f.forecast.expected);
    }
  }
}

bool Policies::due(Time now) {
  deciding_.clear();
  for (const policy::Bundle& bundle : policy::bundles())
    if (again(periods_[bundle.name].decided, bundle.cadence.decide_every, now))
      deciding_.insert(&bundle);
  return !deciding_.empty();
}

// Both are by name.
void Policies::note_changes(const Snapshot& now, const SnapshotChanges& changes) {
  auto seen = seen_.begin();
  for (size_t f = 0; f < now.functions.size(); ++f) {
    const FunctionName& name = now.functions[f].spec.name;
    while (seen != seen_.end() && seen->first < name) seen = seen_.erase(seen);
    if (seen == seen_.end() || seen->first != name) seen = seen_.emplace_hint(seen, name, Seen{});
    Seen& s = seen++->second;
    if (changes.devices || changes.functions[f] || (s.unmet && changes.instances)) s.ran = {};
  }
  seen_.erase(seen, seen_.end());
}

// Returns whether the function is due, and notes its run then. Idle functions are spread over the
// ticks.
bool Policies::note_run(Seen& seen, size_t function, Time now) const {
  constexpr size_t kSpread = 8;
  if (seen.ran != Time{} && now - seen.ran < at_rest_ - kEarly) return false;
  const bool rests = seen.ran != Time{};
  seen = {.ran = now};
  if (!rests) seen.ran -= at_rest_ / 2 * (function % kSpread) / kSpread;
  return true;
}

// Returns whether the jobs are due: they are planned together.
bool Policies::jobs_are_due(const Snapshot& snapshot) const {
  constexpr int kRests = 5;  // times as long as a function, as a job goes on by itself
  auto seen = seen_.begin();
  for (const FunctionView& view : snapshot.functions) {
    const Seen& s = seen++->second;
    if (view.spec.is_inference() || !deciding_.contains(&bundle_of(view.spec))) continue;
    if (s.ran == Time{} || snapshot.now - s.ran >= kRests * at_rest_ - kEarly) return true;
  }
  return false;
}

std::vector<Action> Policies::decide(Snapshot& snapshot, const SnapshotChanges& changes,
                                     const Predictor& predictor, const std::string& boot_id) {
  note_changes(snapshot, changes);
  ran_ = false;
  const bool jobs = jobs_are_due(snapshot);
  auto seen = seen_.begin();
  for (size_t f = 0; f < snapshot.functions.size(); ++f, ++seen) {
    FunctionView& view = snapshot.functions[f];
    view.due = deciding_.contains(&bundle_of(view.spec));
    if (view.spec.is_inference())
      view.due = view.due && note_run(seen->second, f, snapshot.now);
    else if (view.due = view.due && jobs; view.due)
      seen->second = {.ran = snapshot.now};
    ran_ = ran_ || view.due;
  }
  if (std::exchange(boot_, boot_id) != boot_id) memories_.clear();
  if (!ran_) return {};
  std::vector<Action> actions = policy::decide(snapshot, platform_, predictor, memories_, random_);
  for (const Action& a : actions)
    if (std::holds_alternative<Unmet>(a.what)) seen_.at(a.function).unmet = true;
  return actions;
}

// Keys name a revision (NAME@1, NAME@1 on DEVICE) or a function (KIND NAME).
void Policies::forget(const FunctionName& f) {
  seen_.erase(f);
  const std::string name = to_string(f);
  for (auto& [bundle, memory] : memories_)
    std::erase_if(memory.numbers, [&](const auto& of) {
      return of.first.starts_with(name + "@") || of.first.ends_with(" " + name);
    });
}

void Policies::restore(policy::Memories memories, std::string boot) {
  memories_ = std::move(memories);
  boot_ = std::move(boot);
}

}  // namespace sluice::control
