// The control loop: observe → snapshot → policy → actions → act, through the Cluster port. Every
// decision is kept with its reason. What it holds in memory is in the store or can be observed
// again, so that its death loses nothing.
//
// One thread. The clock is handed in; whoever owns it calls step() again after next_step().
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <set>
#include <utility>

#include "control/accounting.h"
#include "control/cluster.h"
#include "control/store.h"
#include "control/traffic.h"
#include "policy/decide.h"
#include "policy/forecast.h"
#include "predict/profile_table.h"

namespace sluice::control {

struct ControlSettings {
  std::string bundle = "has-gpu";        // of functions that name none
  policy::SettingTexts bundle_settings;  // of that bundle, in place of its own
  uint64_t seed = 1;                     // of the policies that draw
  Nanos turn_every = Millis(250);        // a bundle decides in the turns that are its own
  Nanos account_every = Seconds(1);
  Nanos decide_at_rest = Seconds(1);  // a bundle decides again though nothing has changed
  Nanos violation_window = Seconds(10);
  Nanos drain = Seconds(30);         // an instance may take to finish what it has, all in all
  Nanos overdue_grace = Seconds(5);  // beyond its timeout, for an instance that answers nothing
  Nanos patience = Seconds(10);      // what was asked for and does not show by then was lost
  Nanos retry_most = Seconds(60);    // between starts of a revision that cannot start
  Nanos unmet_after = Seconds(1);  // a running function's unmet demand lasts before it is recorded
  Nanos start_cost = Seconds(5);   // assumed of a function that never became ready
  int rollout_tries = 3;           // starts that may fail before a rollout is given up
  Nanos rollout_patience = Seconds(30);  // a new revision may take to reach its full size
  Nanos window = Millis(20);             // of the arbiters
  std::string models;                    // the folder of ModelCopies
  size_t kept_revisions = 10;            // of a function; older ones are forgotten at an apply
};

// What apply() did with a specification.
struct Applied {
  FunctionName function;
  int revision = 0;
  std::string what;  // "created", "changed", "traffic" (the split alone), "unchanged"
  std::vector<std::string> difference;
  std::vector<std::string> warnings;  // what the file asks for in vain
};

class Control {
 public:
  // Restores what the store knows. The references outlive it.
  static Result<std::unique_ptr<Control>> open(Store& store, Cluster& cluster, const Clock& clock,
                                               ControlSettings settings);

  // One turn of the loop; `wall` names the second for people. Never fails: what goes wrong is in
  // the log and in the decisions.
  void step(UnixMillis wall);
  // Before an orderly end: what step() leaves in the store only now and then.
  void close();
  // When to step again: soon while something starts or waits for its last answers, so that who
  // waits for it does not wait long.
  Nanos next_step() const;

  // All of them, or none; nothing is changed when `dry`. Their models have passed check_model()
  // and have their content; where that differs from the newest revision's, a revision is made.
  Result<std::vector<Applied>> apply(std::vector<FunctionSpec> specs, bool dry, UnixMillis wall);
  Result<int> rollback(const FunctionName& f, int to, UnixMillis wall);  // 0: to the one before
  Result<void> remove(const FunctionName& f, UnixMillis wall);
  Result<void> set_drained(const DeviceId& device, bool drained, UnixMillis wall);
  Result<void> set_profile(const std::string& model_path, const predict::Profile& profile);

  // ---- for listings --------------------------------------------------------------------------
  struct Runtime {
    StoredFunction stored;
    Traffic traffic;
    policy::Forecast forecast;
    Time last_scale_down{}, last_request{};
    std::string unavailable;     // why it gets nothing
    std::string rollout_failed;  // why the newest revision was given up; the serving one goes on
    Time newest_ready_since{};   // during a rollout
    std::optional<Decision> last_decision;
    // Decisions that come to nothing, by action and rule: said when they begin and now and then.
    struct Said {
      UnixMillis since = 0;         // when it began
      UnixMillis at = 0, last = 0;  // when it was said (0: not yet), and when it was decided last
      int64_t repeated = 0;         // since it was said
    };
    std::map<std::string, Said> said;
    // What the store has of it.
    struct Kept {
      Account account;
      std::string rollout_failed;
      uint64_t traffic = 0;  // Traffic::changes() then
    } kept;
  };
  const std::map<FunctionName, Runtime>& functions() const { return functions_; }
  // The contents of all revisions' models. nullopt: the store has a revision that cannot be read,
  // and its content is not known.
  std::optional<std::set<std::string>> contents() const;
  const Observation& seen() const { return seen_; }
  const Accounting& accounting() const { return accounting_; }
  // Instances of that revision that ended before they were ready, since the last one that was.
  int start_failures(const FunctionName& name, int revision) const {
    const auto found = troubles_.find({name, revision});
    return found == troubles_.end() ? 0 : found->second.failures;
  }
  Store& store() { return store_; }
  const ControlSettings& settings() const { return settings_; }
  const predict::ProfileTable& predictor() const { return predictor_; }
  const std::map<std::string, predict::Profile>& profiles() const { return profiles_; }

 private:
  Control(Store& store, Cluster& cluster, const Clock& clock, ControlSettings settings);
  // A revision whose instances end before they are ready is tried ever more seldom.
  struct Trouble {
    int failures = 0;  // of the revision's own
    int tries = 0;     // these, and those that their node ended
    Time retry_at{};
    std::string error;
    bool said = false;
  };
  using RevisionKey = std::pair<FunctionName, int>;

  void restore_predictor();
  using Accounts = std::map<std::string, nlohmann::json>;
  void restore_counts(const Accounts& accounts);
  void restore_counts(const FunctionName& name, Runtime& r, const Accounts& accounts);
  void restore_platform(const Accounts& accounts);
  void restore_memories(const Accounts& accounts);
  Result<void> keep_memories();
  void observe(UnixMillis wall);
  void tell_faults(const std::vector<Device>& now, UnixMillis wall);
  void tell_ended(const std::vector<ObservedInstance>& now, UnixMillis wall);
  void tell_ungated(const std::vector<ObservedInstance>& now, UnixMillis wall);
  void tell_unheld(const std::vector<ObservedInstance>& now, UnixMillis wall);
  void count(Time now, UnixMillis wall);
  void account(Time now, UnixMillis wall);
  void forecast(Time now);
  const policy::Bundle& bundle_of(const Runtime& r) const;
  void decide_at_once() {
    for (auto& [name, beat] : beats_) beat.decided = beat.ran = {};
    routes_stale_ = true;
  }
  void reconcile(Time now, UnixMillis wall);
  void ended(const ObservedInstance& o, Time now, UnixMillis wall);
  void give_up_rollout(const FunctionName& f, const Trouble& trouble, UnixMillis wall);
  void settle_rollouts(Time now, UnixMillis wall);
  bool newest_is_up(const FunctionName& name, Runtime& r, Time now) const;
  void stop(const InstanceId& id, Time now, Nanos drain);
  void stop_overdue(Time now, UnixMillis wall);
  void drain_idle(Time now);
  bool held_back(const Action& action, Time now, UnixMillis wall);
  Nanos start_cost(const FunctionName& f) const;
  Snapshot snapshot(Time now) const;
  void look(const Snapshot& s);
  void decide(Time now, UnixMillis wall);
  void try_again(const FunctionView& f, Time now);
  void carry_out(const Action& action, Time now, UnixMillis wall);
  // What a routing table depends on and changes by itself.
  struct RouteInputs {
    struct Function {
      FunctionName name;
      int newest = 0, serving = 0;
      std::string unavailable;
      bool operator==(const Function&) const = default;
    };
    struct Place {
      Instance instance;
      std::string socket;
      bool operator==(const Place&) const = default;
    };
    std::vector<Function> functions;
    std::vector<Place> places;
    bool operator==(const RouteInputs&) const = default;
  };
  RouteInputs route_inputs() const;
  void push_routes();
  void leave_out_stopping();
  void keep();
  void keep_instances();
  Result<void> keep_counts();
  Result<void> keep_counts(const FunctionName& name, const Runtime& r);
  void record(Decision decision);
  bool fold(Runtime& r, Decision& d, Nanos least) const;
  std::string new_id(const FunctionName& f, int revision);
  const StoredFunction* find(const FunctionName& f) const;
  Result<void> save(const FunctionSpec& spec, const Applied& applied, UnixMillis wall);
  void revise(const FunctionSpec& spec, const Applied& applied, UnixMillis wall);
  void resplit(const FunctionSpec& spec, UnixMillis wall);
  void turn_to(Runtime& r, int newest);
  int oldest_kept(const StoredFunction& f, int newest) const;

  Store& store_;
  Cluster& cluster_;
  const Clock& clock_;
  const ControlSettings settings_;
  std::map<FunctionName, Runtime> functions_;
  std::set<FunctionName> unreadable_;  // in the store; their instances are left alone
  bool all_read_ = true;               // every revision in the store, when it was opened
  std::map<std::string, predict::Profile> profiles_;
  predict::ProfileTable predictor_;
  Accounting accounting_;
  Observation seen_;
  std::map<FunctionName, ObservedTraffic> uncounted_;  // what changed since the last count()
  // When something was last done; on the wall's clock also across a restart.
  struct Done {
    Time at{};
    UnixMillis wall = 0;
  };
  // Since then, and it is now; nothing if that is less than `least`.
  static std::optional<Nanos> since(Done& last, Nanos least, Time now, UnixMillis wall);
  Done counted_, accounted_;
  // When a bundle last measured and decided.
  struct Beat {
    Time measured{}, decided{};
    // Its policy's last run, and the snapshot that it saw.
    Time ran{};
    uint64_t saw = 0;
  };
  std::map<std::string_view, Beat> beats_;
  policy::Memories memories_;       // what policies remember, …
  policy::Memories kept_memories_;  // … as in the store
  std::string memories_boot_;       // their times are of that boot's clock
  Random random_;
  Snapshot looked_at_;             // the last one, with all functions due
  uint64_t looks_ = 1;             // how many differed from the one before
  std::vector<RateSample> rates_;  // of the last second, not in the store yet
  bool counts_due_ = false;        // for the store
  UnixMillis gateway_started_ = 0;
  std::map<InstanceId, std::pair<Instance, Time>> ordered_;  // started, not seen yet
  std::map<InstanceId, Time> started_;  // when this loop decided it; not what it adopted
  // What shall end: first the gateway gives it no more and takes its last answer, then it drains.
  struct Stopping {
    Time until{};              // it may take to finish what it has
    bool left_out = false;     // of the table that the gateway has
    std::optional<Time> told;  // to drain
  };
  std::map<InstanceId, Stopping> stopping_;
  std::map<RevisionKey, Trouble> troubles_;
  std::string pushed_;         // the last table's text
  RouteInputs pushed_for_;     // what it was computed from
  bool routes_stale_ = false;  // something else that it is computed from has changed
  int64_t routes_version_ = 0;
  std::vector<StoredInstance> kept_;  // as in the store
  uint64_t next_id_ = 0;
};

}  // namespace sluice::control
