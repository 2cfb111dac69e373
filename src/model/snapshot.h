// Snapshot: all inputs of a decision, at one moment. Immutable by convention; vectors are sorted by
// their ids, so that a policy's walk over them is a total order.
#pragma once

#include <algorithm>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/clock.h"
#include "model/arrival_history.h"
#include "model/device.h"
#include "model/function.h"
#include "model/instance.h"
#include "model/node.h"
#include "model/training.h"

namespace sluice {

// A revision that has traffic beside the newest one: a canary's rest, or the one that still serves
// while the newest starts.
struct OlderRevision {
  int revision = 0;
  FunctionSpec spec;
  int traffic_percent = 0;  // of the function's requests that it has to be ready for

  bool operator==(const OlderRevision&) const = default;
};

// How long requests took, from their arrival to the last byte of the answer. 0: none was answered.
struct LatencyQuantiles {
  Nanos p50{0}, p95{0}, p99{0};

  bool operator==(const LatencyQuantiles&) const = default;
};

// A history without any arrival.
inline const std::shared_ptr<const ArrivalHistory>& no_arrivals() {
  static const auto kNone = std::make_shared<const ArrivalHistory>();
  return kNone;
}

// A function as the loop sees it. The newest revision has to be ready for its
// canary_traffic_percent from the beginning, the older ones for theirs as long as they are listed;
// during a rollout that adds up to more than 100. An instance of a revision that is neither is
// stopped.
struct FunctionView {
  FunctionSpec spec;  // of the newest revision
  int revision = 0;
  std::vector<OlderRevision> older;  // by revision
  double rate = 0;                   // inferences per second, measured over the last seconds
  double forecast = 0;               // inferences per second, by the forecaster
  double forecast_peak = 0;          // the largest forecast within the last minute
  Nanos arrival_gap{0};              // mean between two requests of the last minute; 0: too few
  double arrival_cv = 1;             // coefficient of variation of these gaps
  LatencyQuantiles latency;          // of the last 10 seconds, measured once a second
  int queued = 0;                    // waiting in the function's queue now
  int in_flight = 0;                 // being answered now
  double concurrency = 0;            // mean of queued + in flight over the last seconds
  double concurrency_peak = 0;       // the largest such mean within the last minute
  bool violating = false;  // more requests late in the last seconds than the objective allows
  Nanos start_cost{0};     // from the decision to start an instance until it is ready
  bool due = true;         // its policy decides now; else it is taken as it is
  Time last_scale_down{};  // Time{}: never
  Time last_request{};
  // Never null. The loop shares it and adds to it in its next ticks, so a policy reads it while it
  // decides. Views are equal if they share it.
  std::shared_ptr<const ArrivalHistory> arrivals = no_arrivals();
  std::optional<JobView> job;  // of a training function, and only of those

  bool operator==(const FunctionView&) const = default;
};

// What an instance did in the last 10 seconds, measured once a second.
struct InstanceMeasurements {
  InstanceId instance;
  Share busy;                        // its use of the time of what it holds of its device
  double inferences_per_second = 0;  // answered; by its program's own count, if it has one
  Nanos latency{0};   // mean, from when the gateway gave it a request to the answer; 0: no answer
  int in_flight = 0;  // requests that it has from the gateway, at the end of these seconds
  double answers_per_second = 0;  // answered requests
  double late = 0;                // part of these that took longer than the objective
  double slow = 0;                // part that did so since the grant: by the instance itself
  Nanos queue{0}, compute{0};     // of an inference, as its program counts; 0: unknown

  bool operator==(const InstanceMeasurements&) const = default;
};
using MeasuredInstances = std::vector<InstanceMeasurements>;  // by instance

struct Snapshot {
  Time now{};
  std::vector<FunctionView> functions;  // by name
  std::vector<Instance> instances;      // by id; none that is gone
  std::vector<Device> devices;          // by id
  std::vector<Node> nodes;              // by name
  // Null: nothing was measured. Never changed, so that snapshots share it.
  std::shared_ptr<const MeasuredInstances> measured;
};

// Returns nullptr if nothing was measured of it yet.
inline const InstanceMeasurements* measurements_of(const Snapshot& s, const InstanceId& id) {
  if (s.measured == nullptr) return nullptr;
  const auto found = std::ranges::lower_bound(*s.measured, id, {}, &InstanceMeasurements::instance);
  return found != s.measured->end() && found->instance == id ? &*found : nullptr;
}

}  // namespace sluice
