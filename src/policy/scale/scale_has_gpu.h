// scale_has_gpu: HAS-GPU's hybrid autoscaling (its Algorithm 1) and keep-alive. Scales up when the
// forecast R exceeds α × capacity:
//   1. vertical first: quotas of running instances, widest first, step by step;
//   2. then an instance on a used device, by rising occupancy;
//   3. then an instance on a new device, the most efficient slice that covers the gap;
//   and if no single slice does, the most capable ones until it is covered or the cluster is full.
// Scales down when R < β × capacity and the cooldown has passed: quotas of the narrowest first,
// then the instance, to the smallest capacity with R ≤ α × capacity, R being at least the busiest
// second of `window` and three deviations of the forecast more.
//
// Unlike the paper it counts the gap in capacity, R ÷ α − C. Closing ΔR = R − α·C as printed leaves
// R > α × capacity, so that every tick would take another, smaller step.
//
// Instances on a cordoned device do not count: they are replaced elsewhere, then stopped.
#pragma once

#include "model/action.h"
#include "policy/input.h"
#include "policy/scale/has_gpu_settings.h"

namespace sluice::policy {

std::vector<Action> scale_has_gpu(Input& input);

}  // namespace sluice::policy
