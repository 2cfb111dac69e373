// replicas: keeps a number of instances of one revision, all with the same slice. What `fixed` and
// `exclusive` have in common; they differ in the number and in the slice.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "model/predictor.h"
#include "policy/bundle.h"
#include "policy/cluster_plan.h"
#include "policy/demand.h"

namespace sluice::policy {

struct Replicas {
  int at_least = 1;     // fewer: some are started
  int at_most = 1;      // more: the newest are stopped
  Slice slice;          // of each
  int batch = 1;        // of each that is started
  std::string because;  // why that many, a sentence
  std::vector<std::pair<std::string, double>> numbers;
};

// Instances that hold another slice or lie on a cordoned device are replaced: make before break.
// `predictor` tells the reasons which models were never measured.
void hold_replicas(ClusterPlan& plan, const Demand& demand, const Replicas& replicas,
                   const Predictor& predictor);

// The batch size of one instance: the best that is in time in that slice, one request at a time if
// none is; the file's largest if the model was never measured.
int instance_batch(const Demand& demand, const Slice& slice, const Predictor& predictor);

// Memory of one instance: the file's, else as measured, else 0.
Bytes instance_memory(const Demand& demand, const Predictor& predictor);

}  // namespace sluice::policy
