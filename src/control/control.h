// The control loop: observe → snapshot → policy → actions → act. Its ports are in ports.h: the
// cluster, the desired state, the journal, models, training. Every decision is kept with its
// reason. The loop's state in memory is in a port or can be observed again, so its death loses
// nothing.
//
// The state stands in parts, each with its own: starts, stops, rollouts, routes, counts,
// measurements, accounts, decisions, policies. They do not depend on each other or on the loop.
//
// One thread. The caller provides the clock, and calls step() again after next_step().
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string_view>
#include <utility>

#include "control/decisions.h"
#include "control/instance_groups.h"
#include "control/keeper.h"
#include "control/measurements.h"
#include "control/models.h"
#include "control/notices.h"
#include "control/ports.h"
#include "control/refined.h"
#include "control/route_sync.h"
#include "control/set_apart.h"
#include "control/snapshots.h"
#include "control/starts.h"
#include "control/stops.h"
#include "control/training.h"

namespace sluice::control {

struct ControlSettings {
  std::string bundle = "has-gpu";        // of functions that name none
  policy::SettingTexts bundle_settings;  // of that bundle, overriding its own
  std::string plan;                      // of jobs that name none; empty: their bundle's
  policy::LoanRules loans;               // between virtual clusters
  uint64_t seed = 1;                     // of the policies that draw
  Nanos tick_every = Millis(250);        // the period of ticks; a bundle decides in some of them
  Nanos account_every = Seconds(1);
  Nanos decide_at_rest = Seconds(1);  // a bundle decides again even if nothing has changed
  Nanos violation_window = Seconds(10);
  Nanos drain = Seconds(30);         // the most that an instance may take to finish its work
  Nanos overdue_grace = Seconds(5);  // beyond its timeout, for an instance that answers nothing
  Nanos patience = Seconds(10);      // orders that do not show by then were lost
  Nanos retry_most = Seconds(60);    // between starts of a revision that cannot start
  Nanos unmet_after = Seconds(1);  // a running function's unmet demand lasts before it is recorded
  Nanos start_cost = Seconds(5);   // assumed of a function that never became ready
  int start_tries = 3;             // starts that may fail before a revision is given up
  // Whether a function's only revision is given up, too, until its file is applied again. Else it
  // is tried on, as what a Pod lacked may be there by then.
  bool give_up_only = true;
  Nanos rollout_patience = Seconds(30);  // a new revision may take to reach its full size
  bool refine = true;                    // live instances correct profiles
  std::string boot_id;         // of the clock's machine: policies' memories are valid within a boot
  size_t kept_revisions = 10;  // of a function; older ones are forgotten at an apply
  // Called as each phase of a tick ends, to measure it.
  std::function<void(std::string_view phase)> on_phase = [](std::string_view) {};
};

// The effects of a tick.
struct TickCount {
  int decided = 0;  // functions whose policy ran
  int actions = 0;  // that it decided
};

class Control {
 public:
  // Restores the state in the ports.
  static Result<std::unique_ptr<Control>> open(const Ports& ports, ControlSettings settings);

  // One tick of the loop; `wall` is the wall clock's time, for people. Never fails: errors are in
  // the log and in the decisions.
  void step(UnixMillis wall);
  // Before an orderly end: writes what step() writes only now and then.
  void close();
  // Returns when to step again: soon while something starts or waits for its last answers, so that
  // its users do not wait long.
  Nanos next_step() const;

  // ---- for requests, between two ticks -------------------------------------------------------
  // Takes over a function as it now stands in the desired state; without revisions it was deleted.
  void adopt(StoredFunction f);
  // Forgets a function that is not in the desired state any more; its instances stop. Returns where
  // what its finished jobs have left is kept; it is removed if `with_models`.
  std::vector<std::string> remove(const FunctionName& f, bool with_models);
  // A known function's failed starts no longer delay it, and its job goes on after a trouble.
  void retry(const FunctionName& f);
  // A job without workers begins again from the checkpoint of that step.
  Result<void> go_back(const FunctionName& f, int64_t step);
  ListedCheckpoints checkpoints(const FunctionName& f) const;
  // A known function was applied again without a new revision: one that was given up is started
  // again.
  void retry_given_up(const FunctionName& f);
  Result<void> set_drained(const DeviceId& device, bool drained);
  Result<void> set_profile(const Profile& profile);
  void record(Decision d) { decisions_.record(std::move(d)); }
  void write_decisions();
  // All bundles decide at the next tick, however soon it comes.
  void decide_at_once();
  DesiredState& desired() { return desired_; }
  Journal& journal() { return journal_; }

  // ---- for listings --------------------------------------------------------------------------
  const Functions& functions() const { return functions_; }
  // Functions of which nothing above is known.
  const FunctionsApart& apart() const { return apart_; }
  // Returns why the newest revision was given up; the serving one goes on. Empty if it was not.
  const std::string& rollout_failed(const FunctionName& f) const { return rollouts_.failed(f); }
  const Decisions& decisions() const { return decisions_; }
  // Returns the contents of all revisions' models; nullopt if a stored revision cannot be read, so
  // that its content is unknown.
  std::optional<std::set<std::string>> contents() const;
  const Observation& seen() const { return seen_; }
  const TickCount& last_tick() const { return last_tick_; }
  const Accounting& accounting() const { return accounting_; }
  const InstanceGroups& groups() const { return groups_; }
  // Returns how many instances of that revision ended before they were ready, since the last ready
  // one.
  int start_failures(const FunctionName& f, int revision) const {
    const Starts::Trouble* trouble = starts_.trouble(f, revision);
    return trouble == nullptr ? 0 : trouble->failures;
  }
  // nullptr: none of its starts failed since.
  const Starts::Trouble* start_trouble(const FunctionName& f, int revision) const {
    return starts_.trouble(f, revision);
  }
  const policy::Memories& memories() const { return policies_.memories(); }
  const ControlSettings& settings() const { return settings_; }
  const Training* training() const { return training_; }
  const Profiles& profiles() const { return profiles_; }

 private:
  Control(const Ports& ports, ControlSettings settings);
  Result<void> restore();
  void see_types();
  void teach(const FunctionName& name);
  void teach_all();

  // The phases of a tick.
  void observe(Time now, UnixMillis wall);
  void see_jobs(Time now, UnixMillis wall);
  void reconcile(Time now, UnixMillis wall);
  void count(Time now, UnixMillis wall);
  void refine(Time now, UnixMillis wall);
  std::map<Profiles::Key, std::vector<Evidence>> evidence_of_profiles() const;
  void correct(const Profile& known, const Profile& better, const std::vector<Evidence>& evidence,
               UnixMillis wall);
  bool knows_its_nodes(Time now);
  std::vector<Action> decide(Time now, UnixMillis wall);
  void carry_out(const std::vector<Action>& actions, Time now, UnixMillis wall);
  void push_routes(Time now);
  void keep();

  bool take_in(const StoredFunction& f);
  void say_apart(UnixMillis wall);
  bool has_instances(const FunctionName& f) const;
  bool may_take_over_at_zero(const FunctionState& f, Time now);
  void take_over(FunctionState& f, Reason reason, UnixMillis wall);
  void note_serving();
  void not_written(const Error& fault);
  void return_to_served(FunctionState& f);
  bool give_up_starts(FunctionState& f, int revision, int failures);
  void ended(const ObservedInstance& o, FunctionState* f, Time now, UnixMillis wall);
  void report_lost(const std::vector<Instance>& lost, UnixMillis wall);
  void stop_overdue(Time now, UnixMillis wall);
  void stop_stragglers(Time now, UnixMillis wall);
  using RevisionKey = std::pair<FunctionName, int>;
  std::map<RevisionKey, std::vector<InstanceId>> workers_of_jobs() const;
  bool worker_failed(const ObservedInstance& o, const FunctionState& f);
  void settle_rollouts(Time now, UnixMillis wall);
  void carry_out(const Action& action, Time now, UnixMillis wall);
  Result<void> carry_out(const StartInstance& start, FunctionState& f, Decision& d, Time now);
  Result<void> carry_out(const ResizeInstance& resize, FunctionState& f, Time now);
  bool held_back(const Action& action, Time now, UnixMillis wall);
  bool is_given_up_and_unmet(const Action& action) const;
  void try_again(const FunctionView& f, Time now);
  void stop(const InstanceId& id, Time now, Nanos drain) { stops_.ask(id, now + drain); }
  void drain_idle(Time now);
  InstanceId new_id(const FunctionName& f, int revision);

  const StoredFunction* find(const FunctionName& f) const;
  void clear_obstacles(FunctionState& f);
  std::vector<std::string> drop(const FunctionName& f, Time now, bool with_models = false);

  DesiredState& desired_;
  Journal& journal_;
  Cluster& cluster_;
  Predictor& predictor_;
  const Clock& clock_;
  Training* const training_;
  Models* const models_;
  const ControlSettings settings_;
  const Time began_;

  Functions functions_;
  FunctionsApart apart_;
  bool all_read_ = true;  // every stored revision, at open()
  Profiles profiles_;
  std::vector<DeviceType> types_;  // of the devices for functions
  Observation seen_;
  Snapshot snapshot_;       // of the last tick that decided
  bool met_nodes_ = false;  // each has answered once, or its wait is over
  TickCount last_tick_;
  uint64_t next_id_ = 0;
  Time write_again_{};  // the journal failed: not before then

  Starts starts_;
  Stops stops_;
  Rollouts rollouts_;
  RouteSync routes_;
  Counts counts_;
  Measurements measurements_;
  InstanceGroups groups_;
  Time refined_at_{};
  std::map<Profiles::Key, Need> needs_;  // of the ten seconds before, where they corrected nothing
  Accounting accounting_;
  Decisions decisions_;
  Notices notices_;
  Policies policies_;
  Keeper keeper_;
};

}  // namespace sluice::control
