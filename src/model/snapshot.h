// Snapshot: everything a decision may look at, at one moment. Immutable by convention; vectors are
// sorted by their ids, so that a policy's walk over them is a total order.
#pragma once

#include <string>
#include <vector>

#include "base/clock.h"
#include "model/device.h"
#include "model/function.h"
#include "model/instance.h"

namespace sluice {

// A revision that has traffic beside the newest one: a canary's rest, or the one that still serves
// while the newest starts.
struct OlderRevision {
  int revision = 0;
  FunctionSpec spec;
  int traffic_percent = 0;  // of the function's requests that it has to be ready for

  bool operator==(const OlderRevision&) const = default;
};

// A function as the loop sees it. The newest revision has to be ready for its
// canary_traffic_percent from the beginning, the older ones for theirs as long as they are listed;
// during a rollout that adds up to more than 100. An instance of a revision that is neither is
// stopped.
struct FunctionView {
  FunctionSpec spec;  // of the newest revision
  int revision = 0;
  std::vector<OlderRevision> older;  // by revision
  double rate = 0;                   // inferences per second, measured over the last seconds
  double forecast = 0;               // inferences per second, what the forecaster expects (H6)
  double arrival_cv = 1;             // coefficient of variation of the gaps between arrivals
  int queued = 0;                    // waiting in the function's queue now
  int in_flight = 0;                 // being answered now
  double concurrency = 0;            // mean of queued + in flight over the last seconds
  double concurrency_peak = 0;       // the largest such mean within the last minute
  bool violating = false;  // more requests late in the last seconds than the objective allows
  Nanos start_cost{0};     // from the decision to start an instance until it is ready
  bool due = true;         // its policy decides now; else it is taken as it is
  Time last_scale_down{};  // Time{}: never
  Time last_request{};

  bool operator==(const FunctionView&) const = default;
};

struct Snapshot {
  Time now{};
  std::vector<FunctionView> functions;  // by name
  std::vector<Instance> instances;      // by id; none that is gone
  std::vector<Device> devices;          // by id
};

}  // namespace sluice
