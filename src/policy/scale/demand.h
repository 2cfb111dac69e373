// demand: the load of each revision, in the order in which functions that compete for a full device
// are served: those that violate their objective first, then by priority, then by name. Of one
// function the newest revision comes first.
#pragma once

#include <algorithm>
#include <span>
#include <vector>

#include "policy/input.h"

namespace sluice::policy {

struct Demand {
  const FunctionView* view = nullptr;  // lives as long as the snapshot
  const FunctionSpec* spec = nullptr;  // of this revision
  const Settings* settings = nullptr;  // the function's; lives as long as the Input
  int revision = 0;
  double part = 1;  // of the function's traffic, for which it must be ready

  const FunctionName& function() const { return view->spec.name; }
  const InferenceSpec& inference() const { return spec->inference(); }
  // Inferences per second that it must be ready for.
  double rate() const { return std::max(view->forecast, inference().slo.rate) * part; }
  // Returns whether it has load, or its function has a request that waits or is being answered.
  bool busy() const { return rate() > 0 || view->queued > 0 || view->in_flight > 0; }
  // Returns whether no request came for scaleToZeroAfter.
  bool rested(Time now) const {
    return now - view->last_request >= inference().scale_to_zero_after;
  }
};

// Returns the demands of the input's own functions. The newest revision always has one; older ones
// while they have traffic.
std::vector<Demand> demands(const Input& input);

// Returns how many instances must stay, whatever the rate; how many there may be.
int least_replicas(const Demand& demand);
int most_replicas(const Demand& demand);

}  // namespace sluice::policy
