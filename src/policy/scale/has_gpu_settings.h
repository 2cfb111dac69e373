// Settings of scale_has_gpu and of the sizing of its slices. The defaults are those of HAS-GPU's
// published code, where it has one. A plain value.
#pragma once

#include "policy/settings.h"

namespace sluice::policy {

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
  // Ours, off in the paper. What leaves must be spare for the highest forecast of the last minute,
  // which is left in the middle between alpha and beta: a moment with few requests is not less load.
  bool keep_peak = false;
  // Ours, off in the paper. A lone instance gets a second one where too many requests would find it
  // busy for longer than their objective leaves them (Capability::late_alone).
  bool lone_in_time = false;
  Share unmeasured{250};  // request of an instance whose model was not measured

  static std::span<const Setting<HasGpuSettings>> settings();
  // With a larger beta, what is taken above alpha would be given back at once.
  static constexpr SettingOrder kOrders[] = {{"beta", "alpha"}};
};

}  // namespace sluice::policy
