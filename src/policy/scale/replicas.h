// replicas: keeps a number of instances of one revision, all with the same slice. For the policies
// that decide on a number, and differ in it and in the slice.
#pragma once

#include <string>

#include "policy/explain.h"
#include "policy/scale/cluster_plan.h"
#include "policy/scale/demand.h"

namespace sluice::policy {

struct Replicas {
  int at_least = 1;     // below it, some are started
  int at_most = 1;      // above it, the newest are stopped
  Slice slice;          // of each
  std::string because;  // the reason for the number, a sentence
  Numbers numbers;
  int batch = 0;  // of each; 0: the best that is in time
};

// Instances with another slice or on a cordoned device are replaced: make before break.
void hold_replicas(ClusterPlan& plan, const Demand& demand, const Replicas& replicas);

// Returns the slice that the function's file states, else a whole device; with its memory.
Slice stated_slice(const ClusterPlan& plan, const Demand& demand);

// Returns the requests that one instance should have at once on average: the file's scaleTarget,
// else `utilisation` of its maximum.
double target_concurrency(const InferenceSpec& spec, double utilisation);

// Returns the memory of one instance: the file's, else as measured on its most demanding type, else
// 0.
Bytes instance_memory(const ClusterPlan& plan, const Demand& demand);

}  // namespace sluice::policy
