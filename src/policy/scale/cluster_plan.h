// ClusterPlan: a decision in progress. It starts as a copy of the snapshot, in which the instances
// of revisions without traffic stop. A scaler starts, resizes and stops instances in it and
// examines the result. actions() leads from the snapshot to the plan, each step with its reason, in
// an order in which no two rectangles ever overlap.
//
// Over an Input that must outlive it. Not thread-safe.
#pragma once

#include <cstdint>
#include <deque>
#include <optional>
#include <string>
#include <vector>

#include "model/action.h"
#include "model/snapshot.h"
#include "policy/place/place.h"
#include "policy/scale/demand.h"

namespace sluice::policy {

struct PlannedInstance {
  Instance instance;                 // as planned
  const Instance* before = nullptr;  // as in the snapshot; null: to be started
  uint32_t device = 0;               // its layout
  bool stopping = false;
  Reason reason;  // of the planned change
};

class ClusterPlan {
 public:
  // Instances of other functions than the input's count as occupied, and so do draining ones.
  // Rectangles of the input's functions may be shifted in time if `movable`.
  ClusterPlan(const Input& input, bool movable);
  ClusterPlan(const ClusterPlan&) = delete;
  ClusterPlan& operator=(const ClusterPlan&) = delete;

  const Input& input() const { return input_; }
  const Predictor& predictor() const { return input_.predictor; }
  const std::vector<Demand>& demands() const { return demands_; }
  // One device of each type.
  const std::vector<const Device*>& types() const { return types_; }
  const Device& type_of(const Device& device) const;

  Layouts& layouts() { return layouts_; }
  const Layouts& layouts() const { return layouts_; }
  const Layout& layout(const PlannedInstance& p) const { return layouts_[p.device]; }

  // Returns the revision's instances that start or are ready and that the plan does not stop, by
  // id; those to be started last.
  std::vector<size_t> serving(const Demand& demand) const;
  // Returns those of them that count: not on cordoned devices; and the others, which leave.
  std::vector<size_t> counted(const Demand& demand) const;
  std::vector<size_t> cordoned(const Demand& demand) const;
  const PlannedInstance& at(size_t i) const { return instances_[i]; }
  const Device& device(const PlannedInstance& p) const { return input_.snapshot.devices[p.device]; }
  bool on_drained(size_t i) const { return device(instances_[i]).drained; }
  // Returns whether it can be resized and stopped: its node answers. Else resize() and stop() do
  // nothing.
  bool can_change(size_t i) const { return device(instances_[i]).reachable; }
  // Returns the instance that holds a rectangle on one of the devices, as planned.
  const Instance& instance(const InstanceId& id) const;

  // `spot` is one that the layouts just returned.
  void start(const Demand& demand, const Spot& spot, Quota quota, Bytes memory, int batch,
             Reason reason);
  // The same with all of the slice but its width, which is the spot's.
  void start(const Demand& demand, const Spot& spot, Slice slice, int batch, Reason reason);
  void resize(size_t i, Quota quota, Reason reason);
  // The instance keeps its rectangle until it has drained.
  void stop(size_t i, Reason reason);
  void unmet(const Demand& demand, double gap, Reason reason);

  std::vector<Action> actions() const;

 private:
  void stop_retired();
  bool is_ours(uint32_t instance) const;              // of the snapshot, and not ending
  void lay_out(size_t device, Layout& layout) const;  // fills in the snapshot's rectangles
  uint32_t function_of(const Demand& demand) const;   // its index in the snapshot
  const Room& room(const PlannedInstance& p) const;
  std::optional<Action> change(const PlannedInstance& p) const;  // a start, a resize, or nothing
  std::vector<Action> changes() const;

  const Input& input_;
  const std::vector<Demand> demands_;
  const std::vector<const Device*> types_;
  const bool movable_;
  std::vector<bool> mine_;  // the input's functions
  Layouts layouts_;
  std::deque<PlannedInstance> instances_;
  std::vector<std::vector<size_t>> of_function_;  // of instances_, by the snapshot's functions
  std::vector<Action> unmet_;
};

// Returns "sm 50 % × quota 20 % on d0".
std::string spot_text(const Spot& spot, Share quota);

}  // namespace sluice::policy
