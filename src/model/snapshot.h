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

// A function as the loop sees it.
struct FunctionView {
  FunctionSpec spec;  // of the newest revision
  int revision = 0;
  double rate = 0;         // inferences per second, measured over the last seconds
  double forecast = 0;     // inferences per second, what the forecaster expects (H6)
  double arrival_cv = 1;   // coefficient of variation of the gaps between arrivals
  int queued = 0;          // waiting in the function's queue now
  int in_flight = 0;       // being answered now
  double concurrency = 0;  // mean of queued + in flight over the last seconds
  bool violating = false;  // more requests late in the last seconds than the objective allows
  Time last_scale_down{};  // Time{}: never
  Time last_request{};
};

struct Snapshot {
  Time now{};
  std::vector<FunctionView> functions;  // by name
  std::vector<Instance> instances;      // by id; none that is gone
  std::vector<Device> devices;          // by id
};

}  // namespace sluice
