// The effects of the loop's orders: instances that appeared, ended or got lost, and revisions that
// take over or are given up.
#include <algorithm>

#include "base/log.h"
#include "base/printable.h"
#include "control/control.h"

namespace sluice::control {

void Control::reconcile(Time now, UnixMillis wall) {
  report_lost(starts_.reconcile(seen_.instances, seen_.devices, now), wall);
  note_presence(functions_, seen_.instances, starts_.pending_instances());
  FunctionFinder finder(functions_);
  for (const ObservedInstance& o : seen_.instances) {
    const Instance& i = o.instance;
    if (!ours(o) || !o.reachable) continue;
    FunctionState* f = finder.find(i.function);
    if (f == nullptr && apart_.contains(i.function)) continue;
    if (!alive(o)) {
      // The earlier loop, or `sluice down`, may have asked.
      if (!stops_.asked(i.id) && !o.stopped)
        ended(o, f, now, wall);
      else if (f != nullptr && f->job)
        training_->ended(i.function, i.id, "");
      (void)cluster_.stop(i.id, Nanos(0));  // forget it
    } else if (i.state == InstanceState::kDraining) {
      stops_.drains(i.id, now);
    } else if (f == nullptr) {
      if (!stops_.asked(i.id)) log::info("{}: its function is gone", i.id);
      stop(i.id, now, settings_.drain);
    } else if (i.state == InstanceState::kReady) {
      if (!f->job) starts_.forget(i.function, i.revision);  // a worker has to train first
      f->unavailable.clear();
    }
  }
  stops_.reconcile(seen_.instances);
  stop_overdue(now, wall);
  stop_stragglers(now, wall);
  settle_rollouts(now, wall);
}

void Control::report_lost(const std::vector<Instance>& lost, UnixMillis wall) {
  for (const Instance& i : lost)
    decisions_.record({.at = wall,
                       .function = i.function,
                       .action = "lost",
                       .subject = i.id,
                       .reason = {"start-lost",
                                  i.id + " did not appear within " +
                                      std::to_string(settings_.patience / Seconds(1)) +
                                      " s of its start and is given up.",
                                  {}}});
}

// A hung instance keeps its requests for ever. It is stopped without a drain, and the policies
// replace it.
void Control::stop_overdue(Time now, UnixMillis wall) {
  for (const auto& [o, overdue_for] : overdue(seen_, settings_.overdue_grace)) {
    const Instance& i = o->instance;
    const auto f = functions_.find(i.function);
    if (f == functions_.end() || stops_.asked(i.id)) continue;
    if (!spec_of(f->second.stored, i.revision).is_inference()) continue;
    const double timeout = seconds(spec_of(f->second.stored, i.revision).inference().timeout);
    const double since = seconds(overdue_for), grace = seconds(settings_.overdue_grace);
    char text[200];
    std::snprintf(text, sizeof text,
                  " has answered nothing since a request ran into its timeout of %.3g s, %.1f s "
                  "ago; %.3g s are allowed. It is replaced.",
                  timeout, since, grace);
    decisions_.record(
        {.at = wall,
         .function = i.function,
         .action = "stop",
         .subject = i.id,
         .reason = {"overdue",
                    "Instance " + i.id + text,
                    {{"timeout_s", timeout}, {"overdue_s", since}, {"grace_s", grace}}}});
    ++accounting_.of(i.function).stops;
    keeper_.counted();
    stop(i.id, now, Nanos(0));
  }
}

// An instance ended without being stopped. One that was never ready counts against its revision,
// unless its node ended it: its daemon died, its disk was full, its zygote was killed, its device
// failed.
void Control::ended(const ObservedInstance& o, FunctionState* f, Time now, UnixMillis wall) {
  const Instance& i = o.instance;
  // A job's workers end by themselves once it has ended; it says why.
  if (f != nullptr && f->job && !train::goes_on(f->job->phase)) return;
  std::string error = o.error;
  if (f != nullptr && models_ != nullptr)
    for (const ModelSpec* model : spec_of(f->stored, i.revision).models())
      error = models_->for_user(std::move(error), *model);
  error = printable(error);
  decisions_.record(
      {.at = wall,
       .function = i.function,
       .action = "lost",
       .subject = i.id,
       .reason = {"instance-ended",
                  "Instance " + i.id +
                      (o.node_fault ? " was ended by its node: " : " ended by itself: ") + error,
                  {}}});
  if (f == nullptr || (f->job && !o.node_fault ? !worker_failed(o, *f) : o.ready_after_ms > 0))
    return;
  const bool by_node = o.node_fault || !o.device_fault.empty();
  const Starts::Trouble& t = starts_.failed(i.function, i.revision, by_node, error, now);
  if (i.revision == f->stored.newest && t.failures >= settings_.start_tries) return_to_served(*f);
  const bool is_given_up = give_up_starts(*f, i.revision, t.failures);
  if (!f->present.alive && is_given_up)
    f->unavailable = said_of_given_up(i.revision, t);
  else if (!f->present.alive && !by_node)  // else another one will start
    f->unavailable = "its last instance could not start: " + error;
  if (!rollouts_.give_up(f->stored, i.revision, t.failures, error)) return;
  decisions_.record({.at = wall,
                     .function = i.function,
                     .action = "rollout",
                     .subject = revision_id(i.function, i.revision),
                     .reason = {"rollout-failed",
                                rollouts_.failed(i.function),
                                {{"tries", static_cast<double>(t.failures)}}}});
  keeper_.counted();
}

// A function turns to a revision at once if no instance of it is there that could go on serving. If
// then the revision cannot start, the one that served before serves again.
void Control::return_to_served(FunctionState& f) {
  StoredFunction& s = f.stored;
  if (s.newest != s.serving || std::ranges::count(s.served, s.newest) > 0) return;
  const auto before = served_before(s);
  if (!before || before->assumed) return;
  if (const auto saved = desired_.set_revisions(s.name, s.newest, before->revision, s.served);
      !saved.ok())
    return log::warn("{}", saved.error().message);
  s.serving = before->revision;
  decide_at_once();
}

// A revision that never served, and in whose place no other serves, is not started again: its
// program or model is at fault. One that has served fails for what has changed since, and is tried
// on. Returns whether it is given up.
bool Control::give_up_starts(FunctionState& f, int revision, int failures) {
  const StoredFunction& s = f.stored;
  const bool has_served = std::ranges::count(s.served, revision) > 0;
  if (!settings_.give_up_only || f.job || failures < settings_.start_tries || has_served ||
      revision != s.newest || revision != s.serving)
    return false;
  starts_.give_up(s.name, revision);
  return true;
}

// One that is ordered counts, one that is to end does not.
bool Control::has_instances(const FunctionName& name) const {
  const auto is_of = [&](const Instance& i) { return i.function == name; };
  for (const auto& [id, i] : starts_.pending_instances())
    if (is_of(i)) return true;
  return std::ranges::any_of(seen_.instances, [&](const ObservedInstance& o) {
    return is_of(o.instance) && ours(o) && alive(o) &&
           o.instance.state != InstanceState::kDraining && !stops_.asked(o.instance.id);
  });
}

// The next request of a function without instances starts one revision, not two.
bool Control::may_take_over_at_zero(const FunctionState& f, Time now) {
  const StoredFunction& s = f.stored;
  if (!knows_its_nodes(now)) return false;
  const FunctionSpec& newest = spec_of(s, s.newest);
  return newest.is_inference() && newest.inference().canary_traffic_percent == 100 &&
         rollouts_.failed(s.name).empty() && starts_.trouble(s.name, s.newest) == nullptr &&
         !has_instances(s.name);
}

void Control::settle_rollouts(Time now, UnixMillis wall) {
  for (auto& [name, f] : functions_) {
    if (f.stored.newest == f.stored.serving) continue;
    const std::string newest = "Revision " + std::to_string(f.stored.newest);
    const std::string before = "revision " + std::to_string(f.stored.serving);
    if (may_take_over_at_zero(f, now))
      take_over(f,
                {"none-serves",
                 newest + " takes all traffic at once: there is no instance, of " + before +
                     " neither, that would go on meanwhile.",
                 {}},
                wall);
    else if (rollouts_.takes_over(f, now))
      take_over(f,
                {"newest-ready",
                 newest + " is ready and takes all traffic; " + before + " finishes what it has.",
                 {}},
                wall);
  }
  note_serving();
}

void Control::take_over(FunctionState& f, Reason reason, UnixMillis wall) {
  StoredFunction& stored = f.stored;
  if (const auto saved =
          desired_.set_revisions(stored.name, stored.newest, stored.newest, stored.served);
      !saved.ok())
    return log::warn("{}", saved.error().message);
  decisions_.record({.at = wall,
                     .function = stored.name,
                     .action = "rollout",
                     .subject = revision_id(stored.name, stored.newest),
                     .reason = std::move(reason)});
  stored.serving = stored.newest;
  rollouts_.forget(stored.name);
}

// A revision has served once an instance of it was ready while the traffic was its own. While a
// user's rollback waits for the earlier revision, the one that it leaves is not noted again.
void Control::note_serving() {
  std::vector<StoredFunction*> begun;
  for (auto& [name, f] : functions_) {
    StoredFunction& s = f.stored;
    if (s.serving > s.newest || (!s.served.empty() && s.served.back() == s.serving)) continue;
    if (f.present.serving_ready || !spec_of(s, s.serving).is_inference()) begun.push_back(&s);
  }
  if (begun.empty() || clock_.now() < write_again_) return;
  const auto saved = desired_.transaction([&]() -> Result<void> {
    for (const StoredFunction* s : begun)
      SLUICE_TRY(desired_.set_revisions(s->name, s->newest, s->serving,
                                        with_serving(s->served, s->serving)));
    return {};
  });
  if (!saved.ok()) return not_written(saved.error());
  for (StoredFunction* s : begun) s->served = with_serving(s->served, s->serving);
}

}  // namespace sluice::control
