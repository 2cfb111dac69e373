// The loop's functions: taken over from the desired state, set apart, forgotten.
#include <algorithm>

#include "base/log.h"
#include "control/control.h"

namespace sluice::control {

// Returns whether the loop takes the stored function; else it is set apart.
bool Control::take_in(const StoredFunction& f) {
  std::string why = fault_of(f);
  for (auto other = functions_.begin(); why.empty() && other != functions_.end(); ++other)
    if (const auto free = check_path(f.name, other->first); !free.ok()) why = free.error().message;
  if (why.empty()) return true;
  log::error("store: {}: is set apart: {}.", to_string(f.name), why);
  apart_.insert_or_assign(f.name, SetApart{std::move(why), f.last});
  all_read_ = false;
  return false;
}

// Once for each fault, also over restarts of the loop.
void Control::say_apart(UnixMillis wall) {
  for (auto& [name, apart] : apart_) {
    if (std::exchange(apart.said, true)) continue;
    const auto last = journal_.decisions(name, 1);
    decisions_.know(name,
                    last.ok() && !last->empty() ? std::optional(last->front()) : std::nullopt);
    const std::string text = said_of(apart);
    if (const Decision* before = decisions_.last(name, wall); before && before->reason.text == text)
      continue;
    decisions_.record({.at = wall,
                       .function = name,
                       .action = "notice",
                       .subject = to_string(name),
                       .reason = {"set-apart", text, {}}});
  }
}

void Control::adopt(StoredFunction stored) {
  const FunctionName name = stored.name;
  if (stored.revisions.empty()) {
    if (find(name) != nullptr) drop(name, clock_.now());
    return;
  }
  decide_at_once();
  if (!take_in(stored)) {
    functions_.erase(name);
    predictor_.forget(name);
    return;
  }
  apart_.erase(name);
  decisions_.know(name, std::nullopt);
  FunctionState& f = functions_[name];
  const int before = f.stored.newest;
  f.stored = std::move(stored);
  f.bundle = &policies_.bundle_of(spec_of(f.stored, f.stored.newest));
  if (f.stored.newest != before) {
    clear_obstacles(f);
    f.job.reset();
  }
  teach(name);
}

// Earlier obstacles of the newest revision no longer count.
void Control::clear_obstacles(FunctionState& f) {
  f.unavailable.clear();
  rollouts_.forget(f.stored.name);
  starts_.forget(f.stored.name, f.stored.newest);
}

void Control::retry(const FunctionName& name) {
  if (training_ != nullptr) training_->retry(name);
  starts_.forget(name, functions_.at(name).stored.newest);
}

Result<void> Control::go_back(const FunctionName& name, int64_t step) {
  FunctionState& f = functions_.at(name);
  if (training_ == nullptr)
    return Error{ErrorKind::kUnavailable, "nothing here controls training jobs"};
  if (f.job && f.job->phase == JobPhase::kFinished)
    return Error{ErrorKind::kConflict, "job '" + to_string(name) + "' has finished"};
  if (f.present.alive)
    return Error{ErrorKind::kConflict,
                 "job '" + to_string(name) +
                     "' has workers, which go on from where they are: pause it first, and wait "
                     "until they have left"};
  return training_->go_back(name, step);
}

ListedCheckpoints Control::checkpoints(const FunctionName& name) const {
  return training_ != nullptr ? training_->checkpoints(name) : ListedCheckpoints();
}

void Control::retry_given_up(const FunctionName& name) {
  FunctionState& f = functions_.at(name);
  const Starts::Trouble* t = starts_.trouble(name, f.stored.newest);
  if (t != nullptr && t->given_up) clear_obstacles(f);
}

std::vector<std::string> Control::remove(const FunctionName& name, bool with_models) {
  const Time now = clock_.now();
  std::vector<std::string> kept = drop(name, now, with_models);
  push_routes(now);
  return kept;
}

// Its instances stop at once: a function of the same name that is applied next must not adopt them.
std::vector<std::string> Control::drop(const FunctionName& name, Time now, bool with_models) {
  if (const auto forgot = journal_.forget(name); !forgot.ok())
    log::warn("{}", forgot.error().message);
  if (const auto f = functions_.find(name); f != functions_.end()) {
    counts_.forget(name, f->second.traffic.last(), now);
    functions_.erase(f);
  }
  apart_.erase(name);
  std::vector<std::string> kept;
  if (training_ != nullptr) kept = training_->remove(name, with_models);
  predictor_.forget(name);
  accounting_.forget(name);
  rollouts_.forget(name);
  starts_.forget(name);
  policies_.forget(name);
  keeper_.forget(name);
  decisions_.forget(name);
  for (const ObservedInstance& o : seen_.instances)
    if (o.instance.function == name && ours(o) && alive(o))
      stop(o.instance.id, now, settings_.drain);
  decide_at_once();
  return kept;
}

std::optional<std::set<std::string>> Control::contents() const {
  if (!all_read_) return std::nullopt;
  std::set<std::string> all;
  for (const auto& [name, f] : functions_)
    for (const Revision& revision : f.stored.revisions)
      for (const ModelSpec* model : revision.spec.models())
        if (!model->content.empty()) all.insert(model->content);
  return all;
}

Result<void> Control::set_drained(const DeviceId& device, bool drained) {
  SLUICE_TRY(cluster_.set_drained(device, drained));
  for (Device& d : seen_.devices)
    if (d.id == device) d.drained = drained;
  decide_at_once();
  return {};
}

Result<void> Control::set_profile(const Profile& profile) {
  if (profiles_.superfluous(profile)) return {};
  SLUICE_TRY(desired_.save_profile(profile));
  profiles_.set(profile);
  teach_all();
  decide_at_once();
  return {};
}

}  // namespace sluice::control
