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

// Calls `changed` for each function with a new, ended or changed instance.
template <class Call>
void for_each_change(const std::vector<Instance>& before, const std::vector<Instance>& now,
                     const Call& changed) {
  auto b = before.begin();
  for (const Instance& i : now) {
    for (; b != before.end() && b->id < i.id; ++b) changed(b->function);
    if (b == before.end() || *b != i) changed(i.function);
    if (b != before.end() && b->id == i.id) ++b;
  }
  for (; b != before.end(); ++b) changed(b->function);
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
    for (auto& [name, f] : functions)
      if (f.bundle == &bundle)
        f.forecast = forecaster->step(f.forecast, f.traffic.rate(c.rate_window), c.rate_window,
                                      f.traffic.inferences_per_request());
  }
}

bool Policies::due(Time now) {
  deciding_.clear();
  for (const policy::Bundle& bundle : policy::bundles())
    if (again(periods_[bundle.name].decided, bundle.cadence.decide_every, now))
      deciding_.insert(&bundle);
  return !deciding_.empty();
}

void Policies::note_changes(const Snapshot& now) {
  std::map<FunctionName, Seen> seen;
  auto before = looked_at_.functions.begin();
  const auto end = looked_at_.functions.end();
  const bool all = now.devices != looked_at_.devices || now.nodes != looked_at_.nodes;
  for (const FunctionView& f : now.functions) {
    while (before != end && before->spec.name < f.spec.name) ++before;
    const bool known = before != end && before->spec.name == f.spec.name;
    Seen& s = seen.emplace_hint(seen.end(), f.spec.name, Seen{})->second;
    if (known) {
      s = seen_.at(f.spec.name);
      before->last_request = f.last_request;  // under load it changes in every tick
    }
    if (all || !known || *before != f) s.ran = {};
  }
  bool any = false;
  for_each_change(looked_at_.instances, now.instances, [&](const FunctionName& function) {
    any = true;
    if (const auto s = seen.find(function); s != seen.end()) s->second.ran = {};
  });
  for (auto& [name, s] : seen)
    if (any && s.unmet) s.ran = {};
  seen_ = std::move(seen);
}

// Idle functions are spread over the ticks.
bool Policies::take_turn(size_t function) {
  constexpr size_t kTurns = 8;
  Seen& seen = seen_.at(looked_at_.functions[function].spec.name);
  if (seen.ran != Time{} && looked_at_.now - seen.ran < at_rest_ - kEarly) return false;
  const bool rests = seen.ran != Time{};
  seen = {.ran = looked_at_.now};
  if (!rests) seen.ran -= at_rest_ / 2 * (function % kTurns) / kTurns;
  return true;
}

std::vector<Action> Policies::decide(Snapshot snapshot, const Predictor& predictor,
                                     const std::string& boot_id) {
  for (FunctionView& f : looked_at_.functions) f.due = true;
  note_changes(snapshot);
  looked_at_ = std::move(snapshot);
  ran_ = false;
  for (size_t f = 0; f < looked_at_.functions.size(); ++f) {
    FunctionView& view = looked_at_.functions[f];
    view.due = deciding_.contains(&bundle_of(view.spec)) && take_turn(f);
    ran_ = ran_ || view.due;
  }
  if (std::exchange(boot_, boot_id) != boot_id) memories_.clear();
  if (!ran_) return {};
  std::vector<Action> actions =
      policy::decide(looked_at_, platform_, predictor, memories_, random_);
  for (const Action& a : actions)
    if (std::holds_alternative<Unmet>(a.what)) seen_.at(a.function).unmet = true;
  return actions;
}

void Policies::restore(policy::Memories memories, std::string boot) {
  memories_ = std::move(memories);
  boot_ = std::move(boot);
}

}  // namespace sluice::control
