// replicas: keeps a number of instances of one revision, all with the same slice. For `fixed` and
// `exclusive`, which differ in the number and in the slice.
#pragma once

#include <span>
#include <string>
#include <utility>
#include <vector>

#include "model/predictor.h"
#include "policy/input.h"
#include "policy/scale/cluster_plan.h"
#include "policy/scale/demand.h"

namespace sluice::policy {

struct Replicas {
  int at_least = 1;     // below it, some are started
  int at_most = 1;      // above it, the newest are stopped
  Slice slice;          // of each
  std::string because;  // the reason for the number, a sentence
  std::vector<std::pair<std::string, double>> numbers;
  int batch = 0;  // of each; 0: the best that is in time
};

// Instances with another slice or on a cordoned device are replaced: make before break. By
// `predictor` the reasons name models that were not measured.
void hold_replicas(ClusterPlan& plan, const Demand& demand, const Replicas& replicas,
                   const Predictor& predictor);

// Returns the slice that the function's file states, else a whole device; with its memory. `types`
// is as for Capabilities.
Slice stated_slice(const Demand& demand, const Predictor& predictor,
                   std::span<const Device* const> types);

// Returns the requests that one instance should have at once on average: the file's scaleTarget,
// else `utilisation` of its maximum.
double target_concurrency(const InferenceSpec& spec, double utilisation);

// Returns the memory of one instance: the file's, else as measured on its most demanding type, else
// 0.
// `types` is as for Capabilities.
Bytes instance_memory(const Demand& demand, const Predictor& predictor,
                      std::span<const Device* const> types);

}  // namespace sluice::policy
