// The control loop: observe → snapshot → policy → actions → act, through the Cluster port. Every
// decision is kept with its reason. What it holds in memory is in the store or can be observed
// again, so that its death loses nothing.
//
// One thread. The clock is handed in; whoever owns it calls step() about once a second.
#pragma once

#include <deque>
#include <map>
#include <set>

#include "control/accounting.h"
#include "control/cluster.h"
#include "control/store.h"
#include "control/traffic.h"
#include "policy/bundle.h"
#include "policy/forecast.h"
#include "predict/profile_table.h"

namespace sluice::control {

struct ControlSettings {
  std::string bundle = "has-gpu";  // of functions that name none
  // Our setting: half of the SLO for the batch, the rest for waiting. In the simulated comparison
  // it left half of the violations of the papers' (0.9 and 1.0), which --alpha and --slo-fraction
  // bring.
  policy::ScaleConfig scale{.alpha = 0.7, .slo_fraction = 0.5};
  Nanos decide_every = Seconds(2);
  Nanos rate_window = Seconds(4);  // over which a rate is measured
  Nanos violation_window = Seconds(10);
  Nanos drain = Seconds(30);           // an instance may take to finish what it has
  Nanos start_patience = Seconds(10);  // a start that does not show by then was lost
  Nanos window = Millis(20);           // of the arbiters
};

// What apply() did with a specification.
struct Applied {
  FunctionName function;
  int revision = 0;
  std::string what;  // "created", "changed", "unchanged"
  std::vector<std::string> difference;
};

class Control {
 public:
  // Restores what the store knows. The references outlive it.
  static Result<std::unique_ptr<Control>> open(Store& store, Cluster& cluster, const Clock& clock,
                                               ControlSettings settings);

  // One turn of the loop; `wall` names the second for people. Never fails: what goes wrong is in
  // the log and in the decisions.
  void step(UnixMillis wall);

  // All of them, or none; nothing is changed when `dry`.
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
    Time last_scale_down{};
    std::string unavailable;  // why it gets nothing
    std::optional<Decision> last_decision;
  };
  const std::map<FunctionName, Runtime>& functions() const { return functions_; }
  const Observation& seen() const { return seen_; }
  const Accounting& accounting() const { return accounting_; }
  Store& store() { return store_; }
  const ControlSettings& settings() const { return settings_; }
  const predict::ProfileTable& predictor() const { return predictor_; }
  const std::map<std::string, predict::Profile>& profiles() const { return profiles_; }

 private:
  Control(Store& store, Cluster& cluster, const Clock& clock, ControlSettings settings);
  void restore_predictor();
  void observe(Time now, UnixMillis wall);
  void reconcile(Time now, UnixMillis wall);
  void settle_rollouts(UnixMillis wall);
  bool somebody_waits() const;
  Snapshot snapshot(Time now) const;
  void decide(Time now, UnixMillis wall);
  void carry_out(const Action& action, Time now, UnixMillis wall);
  void push_routes();
  void keep(UnixMillis wall);
  void record(Decision decision);
  std::string new_id(const FunctionName& f, int revision);
  const StoredFunction* find(const FunctionName& f) const;

  Store& store_;
  Cluster& cluster_;
  const Clock& clock_;
  const ControlSettings settings_;
  std::map<FunctionName, Runtime> functions_;
  std::map<std::string, predict::Profile> profiles_;
  predict::ProfileTable predictor_;
  Accounting accounting_;
  Observation seen_;
  Time seen_at_{}, decided_at_{};
  UnixMillis gateway_started_ = 0;
  std::map<InstanceId, std::pair<Instance, Time>> ordered_;  // started, not seen yet
  std::set<InstanceId> stopping_;
  std::string pushed_;  // the last table's text
  int64_t routes_version_ = 0;
  std::vector<StoredInstance> kept_;  // as in the store
  uint64_t next_id_ = 0;
};

}  // namespace sluice::control
