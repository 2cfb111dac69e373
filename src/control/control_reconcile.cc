// What came of what the loop had asked for: instances that appeared, ended or got lost, and
// revisions that take over or are given up.
#include <algorithm>
#include <filesystem>

#include "base/log.h"
#include "control/control.h"
#include "control/model_copies.h"
#include "control/routes.h"

namespace sluice::control {
namespace {

// A failed start names the copy that it read; the user knows the file that it is of. A copy that is
// gone is said to be, since the user's file may be there.
std::string with_users_path(std::string error, const std::string& models, const ModelSpec& model) {
  const std::string copy = start_path(models, model);
  if (!model.content.empty() && error.find(copy) != error.npos && !std::filesystem::exists(copy))
    return "the copy of " + model.path + " is gone: apply the function's file again";
  for (size_t at = 0; (at = error.find(copy, at)) != error.npos; at += model.path.size())
    error.replace(at, copy.size(), model.path);
  return error;
}

}  // namespace

void Control::reconcile(Time now, UnixMillis wall) {
  for (const ObservedInstance& o : std::vector(seen_.instances)) {
    const Instance& i = o.instance;
    ordered_.erase(i.id);
    if (!ours(o) || unreadable_.contains(i.function)) continue;
    const auto asked = stopping_.find(i.id);
    if (!alive(o)) {
      // The loop before this one, or `sluice down`, may have asked.
      if (asked == stopping_.end() && !o.stopped) ended(o, now, wall);
      (void)cluster_.stop(i.id, Nanos(0));  // forget it
    } else if (i.state == InstanceState::kDraining) {
      if (asked != stopping_.end()) asked->second.told = now;  // it knows
    } else if (asked == stopping_.end() && find(i.function) == nullptr) {
      log::info("{}: its function is gone", i.id);
      stop(i.id, now, settings_.drain);
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
  std::erase_if(started_, [&](const auto& entry) {
    return !ordered_.contains(entry.first) &&
           std::ranges::none_of(seen_.instances, [&](const ObservedInstance& o) {
             return o.instance.id == entry.first;
           });
  });
  stop_overdue(now, wall);
  drain_idle(now);
  std::erase_if(ordered_, [&](const auto& entry) {
    const auto& [instance, at] = entry.second;
    if (now - at < settings_.patience) return false;
    record({.at = wall,
            .function = instance.function,
            .action = "lost",
            .subject = instance.id,
            .reason = {"start-lost",
                       instance.id + " did not appear within " +
                           std::to_string(settings_.patience / Seconds(1)) +
                           " s of its start and is given up.",
                       {}}});
    return true;
  });
}

// An instance that hangs keeps its requests for ever. It is stopped without a drain, and the
// policies replace it.
void Control::stop_overdue(Time now, UnixMillis wall) {
  for (const ObservedInstance& o : std::vector(seen_.instances)) {
    const Instance& i = o.instance;
    const auto overdue = seen_.overdue.find(i.id);
    const auto f = functions_.find(i.function);
    if (overdue == seen_.overdue.end() || overdue->second <= settings_.overdue_grace) continue;
    if (!ours(o) || f == functions_.end() || i.state != InstanceState::kReady) continue;
    if (stopping_.contains(i.id)) continue;
    const double timeout = seconds(spec_of(f->second.stored, i.revision).timeout);
    const double since = seconds(overdue->second), grace = seconds(settings_.overdue_grace);
    char text[200];
    std::snprintf(text, sizeof text,
                  " has answered nothing since a request ran into its timeout of %.3g s, %.1f s "
                  "ago; %.3g s are allowed. It is replaced.",
                  timeout, since, grace);
    record({.at = wall,
            .function = i.function,
            .action = "stop",
            .subject = i.id,
            .reason = {"overdue",
                       "Instance " + i.id + text,
                       {{"timeout_s", timeout}, {"overdue_s", since}, {"grace_s", grace}}}});
    ++accounting_.of(i.function).stops;
    counts_due_ = true;
    stop(i.id, now, Nanos(0));
  }
}

// An instance that was not stopped is gone. One that was never ready counts against its revision,
// unless its node ended it: its daemon died, its disk was full, its zygote was killed.
void Control::ended(const ObservedInstance& o, Time now, UnixMillis wall) {
  const Instance& i = o.instance;
  const auto f = functions_.find(i.function);
  const std::string error =
      f == functions_.end()
          ? o.error
          : with_users_path(o.error, settings_.models, spec_of(f->second.stored, i.revision).model);
  record({.at = wall,
          .function = i.function,
          .action = "lost",
          .subject = i.id,
          .reason = {"instance-ended",
                     "Instance " + i.id +
                         (o.node_fault ? " was ended by its node: " : " ended by itself: ") + error,
                     {}}});
  if (f == functions_.end() || o.ready_after_ms > 0) return;
  Trouble& t = troubles_[{i.function, i.revision}];
  if (!o.node_fault) ++t.failures;
  const Nanos wait = Seconds(1LL << std::min(++t.tries, 10));
  t.retry_at = now + std::min(wait, settings_.retry_most);
  t.error = error;
  t.said = false;
  f->second.unavailable = "its last instance could not start: " + error;
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

}  // namespace sluice::control
