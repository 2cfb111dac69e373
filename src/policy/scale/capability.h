// capability: what a slice of a device of one type can do for one revision: inferences per second,
// and whether its batches are in time. Capabilities has one for each type.
//
// *In time* means predicted latency ≤ slo_fraction × SLO; if not even the whole device reaches
// that, ≤ SLO. An instance that may borrow runs its batches at its limit, the whole window; its
// throughput is that of its request. A batch size is the most requests that an instance puts
// together. If its quota is too small for full batches in time, it is counted at the largest batch
// that is in time, and not at all if there is none.
#pragma once

#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "model/predictor.h"
#include "policy/scale/demand.h"

namespace sluice::policy {

// Which slices count. The defaults are those of HAS-GPU's published code.
struct Sizing {
  double slo_fraction = 1;  // of the SLO: the longest that a slice's batches may take
  bool borrow = false;      // an instance may use the whole window
  Share quota_step{100};    // between quotas
  Share min_quota{50};
  double min_rate = 0.1;       // inferences per second that an idle instance still does
  bool idle_meets_slo = true;  // an idle instance keeps a quota that answers one request in time
};

// The request of an instance whose model was never measured.
inline constexpr Share kUnmeasured{250};

// Not thread-safe, not even for reading.
class Capability {
 public:
  // For devices of the type of `device`. `predictor` outlives it.
  Capability(const Demand& demand, const Sizing& sizing, const Predictor& predictor,
             const Device& device);

  bool known() const { return fastest_.has_value(); }        // it was measured there
  std::optional<Nanos> fastest() const { return fastest_; }  // one request on a whole device
  Nanos bound() const { return bound_; }                     // the bound for "in time"

  // Returns inferences per second; 0 if unknown or never in time.
  double of(const Configuration& c) const;

  // Returns the batch size for an instance of width `sm` that may grow to `quota`: the most capable
  // in time; of those within 2 % the smallest, whose requests wait less for each other. Returns
  // nothing if no size is in time.
  std::optional<int> best_batch(Share sm, Share quota) const;

  // Returns the smallest quota that an idle instance may fall to (HAS-GPU's keep-alive): one that
  // still answers a request in time, or, with idle_meets_slo off, only min_rate requests per
  // second. An instance that may borrow must answer within the SLO, whatever its neighbours do.
  // `batch` is the instance's. Returns nothing if not even the whole window suffices.
  std::optional<Share> idle_quota(Share sm, int batch) const;

  // Returns which part of the requests would be late, because one instance on a whole device, the
  // only one, is busy when they come. For Poisson arrivals at `rate` a second and even service
  //   ρ · exp(−2 (1 − ρ) · (SLO − service) ÷ service)
  // an exponential tail with the mean wait of an M/D/1 queue. 0: no objective, or never in time.
  double late_alone(double rate) const;

  // Widths worth considering, ascending.
  const std::vector<Share>& widths() const { return widths_; }

  // Returns the memory of one instance: the file's, else as measured, else 0.
  Bytes memory() const { return memory_; }

 private:
  std::optional<Nanos> latency(const Configuration& c) const;
  double throughput(const Configuration& c) const;
  double compute(const Configuration& c) const;  // computes of()
  bool in_time(const Configuration& c) const;
  bool keeps_slo_idle(const Configuration& c) const;

  const Predictor& predictor_;
  const Sizing sizing_;
  ModelOnDevice model_;
  std::vector<int> batches_;  // ascending, up to the function's maximum
  std::vector<Share> widths_;
  std::optional<Nanos> fastest_;
  Nanos bound_ = Nanos::max(), slo_ = Nanos::max();
  Bytes memory_ = 0;
  // Results of of(): a revision's few slices are asked for again and again.
  mutable std::vector<std::pair<Configuration, double>> answered_;
};

// The capabilities of one revision on all types of device. `types` has one device of each relevant
// type (one_of_each_type); the devices outlive it.
class Capabilities {
 public:
  Capabilities(const Demand& demand, const Sizing& sizing, const Predictor& predictor,
               std::span<const Device* const> types);

  // REQUIRES: `types` has a device of its type.
  const Capability& on(const Device& device) const;

  // Returns the capability on the type that answers one request soonest; unknown if none was
  // measured.
  const Capability& best() const { return all_[best_].capability; }

  // Returns the memory that one instance needs on its most demanding type.
  Bytes most_memory() const;

 private:
  struct OnType {
    const Device* example = nullptr;
    Capability capability;
  };
  std::vector<OnType> all_;  // never empty
  size_t best_ = 0;
};

// Returns the widths that devices of the type can hold for those, which ascend; each once.
std::vector<Share> widths_on(const Device& type, const std::vector<Share>& widths);

// The steps of vertical scaling's quotas: min_quota, then the multiples of quota_step.
Share quota_above(Share quota, const Sizing& sizing);
Share quota_below(Share quota, const Sizing& sizing);

}  // namespace sluice::policy
