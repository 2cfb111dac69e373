// capability: what a slice can do for one revision (H5 as policies use it): inferences per second,
// and whether its batches are in time.
//
// *In time* means predicted latency ≤ slo_fraction × SLO (reading (d)); where not even the whole
// device reaches that, ≤ SLO. An instance that may borrow runs its batches at its limit, the whole
// window; its throughput is what the request is good for. A batch size is the most that an instance
// puts together: when its quota is too small for full batches in time, it is counted at the largest
// batch that is, and not at all if there is none.
#pragma once

#include <optional>
#include <vector>

#include "model/predictor.h"
#include "policy/demand.h"
#include "policy/has_gpu_settings.h"

namespace sluice::policy {

class Capability {
 public:
  Capability(const Demand& demand, const HasGpuSettings& config, const Predictor& predictor);

  bool known() const { return fastest_.has_value(); }        // was it ever measured?
  std::optional<Nanos> fastest() const { return fastest_; }  // one request on a whole device
  Nanos bound() const { return bound_; }                     // what in time means

  // Inferences per second; 0 where unknown or never in time.
  double of(const Configuration& c) const;

  // The batch size for an instance of width `sm` that may grow to `quota`: the most capable in
  // time; of those within 2 % the smallest, whose requests wait less for each other. Nothing: no
  // size is.
  std::optional<int> best_batch(Share sm, Share quota) const;

  // The smallest quota that an instance may fall to (H9, reading (g)): one that still answers a
  // request in time, or with idle_meets_slo off only min_rate requests per second. One that may
  // borrow answers within the SLO, whatever its neighbours do. `batch` is the instance's. Nothing:
  // not even the whole window is enough.
  std::optional<Share> idle_quota(Share sm, int batch) const;

  // Widths worth considering, ascending.
  const std::vector<Share>& widths() const { return widths_; }

  // Memory of one instance: the file's, else as measured, else 0.
  Bytes memory() const { return memory_; }

 private:
  std::optional<Nanos> latency(const Configuration& c) const;
  double throughput(const Configuration& c) const;
  bool in_time(const Configuration& c) const;
  bool keeps_slo_idle(const Configuration& c) const;

  const Predictor& predictor_;
  const HasGpuSettings& config_;
  FunctionName function_;
  int revision_;
  std::vector<int> batches_;  // ascending, up to the function's maximum
  std::vector<Share> widths_;
  std::optional<Nanos> fastest_;
  Nanos bound_ = Nanos::max(), slo_ = Nanos::max();
  Bytes memory_ = 0;
};

// The quotas that vertical scaling steps through: min_quota, then the multiples of quota_step.
Share quota_above(Share quota, const HasGpuSettings& config);
Share quota_below(Share quota, const HasGpuSettings& config);

}  // namespace sluice::policy
