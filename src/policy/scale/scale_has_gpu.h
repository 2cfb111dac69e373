// scale_has_gpu: HAS-GPU's hybrid autoscaling (its Algorithm 1) and keep-alive. Scales up when the
// forecast R exceeds α × capacity:
//   1. vertical first: quotas of running instances, widest first, step by step;
//   2. then an instance on a used device, by rising occupancy;
//   3. then an instance on a new device, the most efficient slice that covers the gap;
//   and if no single slice does, the most capable ones until it is covered or the cluster is full.
// Scales down when R < β × capacity and the cooldown has passed: quotas of the narrowest first,
// then the instance, to the smallest capacity with R ≤ α × capacity.
//
// Unlike the paper it counts the gap in capacity, R ÷ α − C. Closing ΔR = R − α·C as printed leaves
// R > α × capacity, so that every tick would take another, smaller step.
//
// A revision whose times were never measured gets one more instance of its slice while it falls
// behind (unmeasured.h), the next once that one is ready.
//
// Instances on a cordoned device do not count: they are replaced elsewhere, then stopped.
#pragma once

#include "model/action.h"
#include "policy/input.h"
#include "policy/scale/capability.h"

namespace sluice::policy {

// The defaults are those of the published code, where it has one.
struct HasGpuSettings {
  double alpha = 0.9;     // scale up when the forecast exceeds alpha × capacity
  double beta = 0.3;      // scale down when it is below beta × capacity
  Share quota_step{100};  // ΔI_q
  Share min_quota{50};
  Nanos cooldown = Seconds(10);  // between scale-downs of a function
  double min_rate = 0.1;         // R_min, inferences per second that always stay possible
  double slo_fraction = 1.0;     // of the SLO: the longest a candidate slice's batches may take
  bool idle_meets_slo = true;    // idle keeps a quota that answers one request in time
  // Ours, off in the paper. An instance may use the idle time of its lane: its request is
  // guaranteed, its limit is the whole window. It is in time if it is at its limit.
  bool borrow = false;
  // Ours, off in the paper. Waiting requests have to be done within slo_fraction × SLO, on top of
  // the rate.
  bool work_off = false;
  // Ours, off in the paper. A gap of at most this part of the capacity causes no start.
  double slack = 0;
  // Ours, off in the paper. No instance leaves until the last started one is ready and has stayed
  // for as long as its start took: a start costs more than what it holds.
  bool outlast_starts = false;
  // Ours, off in the paper. An instance stops only if it is spare for the highest forecast of the
  // last minute: a moment with few requests is not less load, and it comes back only after a start.
  // Quotas, which come back within a decision, follow the load; an instance that is spare for that
  // rests, with the least quota. Either leaves the load in the middle between alpha and beta.
  bool keep_peak = false;
  // Ours, off in the paper. On full devices every function gets what its load needs before any gets
  // more, which is forecast ÷ alpha.
  bool load_first = false;
  // Ours, off in the paper. A lone instance gets a second one where too many requests would find it
  // busy for longer than their objective leaves them (Capability::late_alone).
  bool lone_in_time = false;
  Share unmeasured = kUnmeasured;  // request of an instance whose model was not measured

  Sizing sizing() const {
    return {slo_fraction, borrow, quota_step, min_quota, min_rate, idle_meets_slo};
  }

  static std::span<const Setting<HasGpuSettings>> settings();
  // With a larger beta, what is taken above alpha would be given back at once.
  static constexpr SettingOrder kOrders[] = {{"beta", "alpha"}};
};

std::vector<Action> scale_has_gpu(Input& input);

}  // namespace sluice::policy
