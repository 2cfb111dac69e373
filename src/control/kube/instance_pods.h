// InstancePods: compares the instances that agents report with the Pods that there are, and says
// what to do so that each instance has its Pod and each Pod its instance.
//
// - An ordered instance whose agent reports it, and that has no Pod, gets one. An instance has one
//   life: a Pod that was there and is gone is not made again.
// - An instance that starts without a Pod and without an order is ended at its agent, so that the
//   loop starts another: the controller has died between the two.
// - A Pod whose agent answers without its instance is deleted, and so is a Pod of a node that has
//   left the cluster.
// - An instance whose Pod has ended, cannot be made, or lacks an image or a Secret is ended at its
//   agent. It carries the reason.
// - Nothing is done at a node that does not answer.
//
// Plain state without side effects. One thread, the loop's.
#pragma once

#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "control/cluster.h"
#include "control/kube/cluster_objects.h"
#include "control/kube/lasting.h"

namespace sluice::control {

class InstancePods {
 public:
  // Reports of agents and listings of Pods are not of one moment: what looks wrong for less than
  // this is left alone.
  static constexpr Nanos kSettle = Seconds(5);
  static constexpr Nanos kStuck = Seconds(15);   // for an image or a Secret to come
  static constexpr Nanos kAgain = Seconds(5);    // between two equal orders
  static constexpr Nanos kForget = Seconds(15);  // what no agent reports any more
  static constexpr Nanos kDrain = Seconds(30);   // of a Pod whose instance is not known

  struct Removal {
    std::string space;
    InstanceId instance;
    Nanos grace{0};
  };
  struct Plan {
    std::vector<PodOrder> make;
    std::vector<Removal> remove;
    std::vector<InstanceId> stop;  // at their agents, without a drain
  };

  // Its agent has been asked to start it. `made`: its Pod has been ordered, too.
  void ordered(PodOrder order, bool made, Time now);
  // Its agent has been asked to drain it. `removed`: the deletion of its Pod was ordered, too.
  void stopped(const InstanceId& id, Nanos drain, bool removed, Time now);
  // Returns whether there is a Pod of it, or may be soon.
  bool may_have_pod(const InstanceId& id) const {
    return listed_.contains(id) || orders_.contains(id);
  }
  // The order to make its Pod has failed.
  void failed(const PodFailure& failure);

  // `seen`: the instances of nodes that answer, by id, and all nodes.
  Plan step(const Observation& seen, const std::vector<InstancePod>& pods, Time now);
  // Completes the observation by what the last step() knows of Pods. An instance that step() had
  // stopped has the reason; for its agent it ended on request. One whose Pod is being deleted, by
  // any client, drains.
  void explain(Observation& seen) const;

 private:
  struct Order {
    PodOrder order;
    std::optional<Time> made;
  };
  struct Failure {
    std::string why;
    bool by_cluster = false;      // else it counts against the revision
    std::optional<Time> stopped;  // at its agent
  };
  bool may_be_its(const InstancePod& pod, const Observation& seen) const;
  void fail(const InstanceId& id, std::string why, bool by_cluster);
  void step(const ObservedInstance& o, const InstancePod* pod, Time now, Plan& plan);
  void without_pod(const InstanceId& id, Time now, Plan& plan);
  void with_pod(const ObservedInstance& o, const InstancePod& pod, Time now, Plan& plan);
  void step_pod(const InstancePod& pod, const Observation& seen, Time now, Plan& plan);
  void remove(const InstancePod& pod, Nanos grace, Time now, Plan& plan);
  void forget(const Observation& seen);

  std::map<InstanceId, Order> orders_;  // whose Pod has not been seen
  std::map<InstanceId, Nanos> drains_;  // of instances that drain
  std::map<InstanceId, Failure> failures_;
  std::map<InstanceId, Time> removed_;  // when the deletion of their Pods was ordered
  std::set<InstanceId> listed_;         // they have Pods
  std::set<InstanceId> deleting_;       // their Pods are being deleted
  Lasting lasting_;
};

}  // namespace sluice::control
