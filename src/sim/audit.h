// Audit: what must hold of the loop and the cluster together, from second to second. Each bound
// counts from the last moment at which a fault disturbed orders, so that it is true in every
// scenario:
//
//   - Every instance of a node is known to the loop, and an ended one is forgotten, within 2 s.
//   - A ready instance gets requests, or is asked to stop and has ended, within 45 s: a drain of at
//     most 30 s, an order that is repeated after 10 s.
//   - A function has its minReplicas, or no empty device could serve it, within 15 s: an order that
//     was lost is repeated after 10 s. Failed starts add their backoff, 60 s at most.
//   - No request is open beyond its timeout.
//
// One thread. The references outlive it.
#pragma once

#include <map>

#include "control/control.h"
#include "sim/scenario.h"

namespace sluice::sim {

class Audit {
 public:
  Audit(const Scenario& scenario, const SimulatedCluster& cluster, const Predictor& predictor)
      : scenario_(scenario), cluster_(cluster), predictor_(predictor) {}

  // A fault begins, ends or happens.
  void disturbed(Time now) { disturbed_ = now; }
  // Call once a second. Returns an error that names the first property that does not hold.
  Result<void> check(const control::Control& control, Time now);

 private:
  Result<void> check_instances(const control::Control& control, Time now);
  Result<void> check_replicas(const control::Control& control, Time now);
  bool could_start(const FunctionSpec& spec) const;
  bool is_worker(const control::ObservedInstance& o) const;

  const Scenario& scenario_;
  const SimulatedCluster& cluster_;
  const Predictor& predictor_;
  Time disturbed_{};
  struct Phase {
    InstanceState state{};
    bool routed = false;
    Time since{};        // of both
    bool there = false;  // at the last check
  };
  std::map<InstanceId, Phase> phases_;
  std::map<FunctionName, Time> short_since_;
};

}  // namespace sluice::sim
