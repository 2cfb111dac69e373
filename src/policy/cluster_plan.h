// ClusterPlan: a decision in the making. It starts as the snapshot is; a scaler starts, resizes and
// stops instances in it and looks at what that leaves; actions() is what leads from the snapshot to
// the plan, each step with its reason, in an order in which no two rooms ever overlap.
//
// A plain value over a snapshot that must outlive it. Not thread-safe.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "model/action.h"
#include "model/snapshot.h"
#include "policy/demand.h"
#include "policy/place_lanes.h"

namespace sluice::policy {

struct PlannedInstance {
  Instance instance;                 // as planned
  const Instance* before = nullptr;  // as the snapshot has it; null: to be started
  bool stopping = false;
  Reason reason;  // of the planned change
};

class ClusterPlan {
 public:
  // `mine` by name. Instances of other functions are taken room, and so are those that drain. Rooms
  // of `mine` may be shifted in time if `movable`.
  ClusterPlan(const Snapshot& snapshot, std::span<const FunctionName> mine, bool movable);

  std::vector<Lanes>& devices() { return devices_; }  // by id
  const std::vector<Lanes>& devices() const { return devices_; }
  Lanes& device(const DeviceId& id);
  const Lanes& device(const DeviceId& id) const;

  // The revision's instances that start or are ready and that the plan does not stop, by id; those
  // to be started last. Positions are good until the next start().
  std::vector<size_t> serving(const Demand& demand) const;
  const PlannedInstance& at(size_t i) const { return instances_[i]; }
  bool on_drained(size_t i) const;
  // What holds a room on one of the devices, as planned.
  const Instance& instance(const InstanceId& id) const;

  void start(const Demand& demand, Lanes& device, const Opening& opening, Quota quota, Bytes memory,
             int batch, Reason reason);
  void resize(size_t i, Quota quota, Reason reason);
  // It keeps its room until it has drained.
  void stop(size_t i, Reason reason);
  void unmet(const Demand& demand, double gap, Reason reason);

  // Stops the instances of `mine` whose revision has no traffic any more.
  void stop_retired(std::span<const Demand> demands);

  std::vector<Action> actions() const;

 private:
  struct Held {
    DeviceId device;
    Room room;
  };
  const Room& room(const PlannedInstance& p) const;
  std::optional<Action> change(const PlannedInstance& p) const;  // a start, a resize, or nothing
  std::vector<Held> held_before() const;

  const Snapshot& snapshot_;
  std::vector<Lanes> devices_;
  std::vector<PlannedInstance> instances_;
  std::vector<Action> unmet_;
};

}  // namespace sluice::policy
