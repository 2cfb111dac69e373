// released: the rectangles that a bundle's stopped instances held, so that the next decisions can
// offer them again as they are (place_rectangles: keep-restructure). The policy's memory has them
// by device. One is forgotten once another instance lies in it, or with all of its device's once
// there are more than Rectangles::kMostFree.
//
// Over an Input and a plan that must outlive it. Not thread-safe.
#pragma once

#include "policy/input.h"
#include "policy/scale/cluster_plan.h"

namespace sluice::policy {

class Released {
 public:
  Released(Input& input, ClusterPlan& plan) : input_(input), plan_(plan) {}

  // Offers the remembered ones to the plan's devices. One that a draining instance still holds is
  // offered later.
  void offer();
  // Remembers the rectangle of an instance that the plan stops.
  void add(const PlannedInstance& stopped);

 private:
  Input& input_;
  ClusterPlan& plan_;
};

}  // namespace sluice::policy
