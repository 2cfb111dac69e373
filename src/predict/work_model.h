// WorkModel: how long a batch takes on a slice, from the operators of a model and, if there is one,
// a profile of a few seconds. A device and the thread that issues work to it run at the same time;
// the slower one counts:
//
//   latency(b, s, q) = max(device(b, s), host(q))                  (a smooth maximum)
//   device(b, s)     = Σ over operators of exp(network(operator, b, s)),
//                      or of Σ over kinds of work of rate · work ÷ (s · q), where few models were
//                      measured: on CPUs, which a quota gives by turns
//   host(q)          = Σ over operators of issue(type) · throttle(q)
//
// This is how the time quota of HAS-GPU's V100 data acts: it throttles the thread that issues, not
// kernels that are queued. The network learned the device's time of one operator from whole models
// (src/learn).
//
// A short profile replaces host(q) by what was measured, and corrects device by
// exp(θ₀ + θ₁·(log s + 1)), with the θ that agree best with it (ridge regression): a model's own
// factor, and its own use of more sm.
#pragma once

#include <array>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "model/operator_graph.h"
#include "model/predictor.h"
#include "predict/network.h"

namespace sluice::predict {

struct TimeAt {
  Share share;
  double ms = 0;

  bool operator==(const TimeAt&) const = default;
};

// Latencies by ascending share; in each list the last is of the whole. Some may be missing.
struct ShortProfile {
  std::vector<TimeAt> alone;   // batch 1 under some sm, on a device of its own and without a quota
  std::vector<TimeAt> quotas;  // batch `quota_batch` with the whole sm under some quotas
  int quota_batch = 4;
};

// GMACs of dense work, of convolutions over more than a point, of convolutions in groups; 10⁹
// parameters of dense layers, read once a batch; 10⁸ numbers moved; 10³ operators of a batch.
inline constexpr size_t kWorkKinds = 6;
using Work = std::array<double, kWorkKinds>;

struct WorkWeights {
  Network network;            // of kOperatorFeatures inputs: log ms
  std::vector<double> rates;  // ms by kind of work, in place of the network; empty: there are none
  std::vector<double> issue;  // log ms by kOperatorTypes
  std::vector<TimeAt> throttle;  // log of the factor by ascending quota; that of the whole is 0
  double tail = 1;  // by how much of `throttle` a model's own host time grows below its profile
  double sharpness = 10;                      // of the smooth maximum
  std::array<double, 2> stiffness{0.5, 0.8};  // λ of θ
};

// Each of kOperatorTypes as 0 or 1; log(1 + MACs), log(1 + parameters), log of the numbers moved,
// log of those written, kernel, log(1 + groups), log s, log b.
inline constexpr size_t kOperatorFeatures = std::size(kOperatorTypes) + 8;

using FeatureVector = std::array<double, kOperatorFeatures>;

// What the network is asked about one operator.
class OperatorFeatures {
 public:
  explicit OperatorFeatures(const Operator& one);
  // `s` and `b`: logarithms of the share and the batch.
  FeatureVector at(double s, double b) const;
  Work work(double batch) const;

 private:
  Work growing_{}, constant_work_{};  // with the batch; of each batch
  FeatureVector constant_{};          // those that neither share nor batch changes
  bool has_macs_;
  double moved_, parameters_;  // numbers
};

// Operators that do the same, once.
struct CountedOperator {
  size_t type;  // of kOperatorTypes
  OperatorFeatures features;
  double count = 1;
};
std::vector<CountedOperator> counted(const OperatorGraph& graph);

// The estimate for one model. Pure; const functions may be called at once.
class WorkEstimate {
 public:
  // REQUIRES: the weights outlive it; graph.batch is 1.
  WorkEstimate(const WorkWeights& weights, const OperatorGraph& graph,
               const ShortProfile* profile = nullptr);

  double ms(const Configuration& c) const;
  // Of many at once: each pair of batch and sm is asked for once.
  std::vector<double> ms(std::span<const Configuration> all) const;

  double device_ms(int batch, Share sm) const;
  double host_ms(Share quota) const;

 private:
  Share device_share(const Configuration& c) const;
  double log_device(double s, double b) const;
  double log_throttle(double q) const;
  double slower(double device, double host) const;
  void calibrate(const ShortProfile& profile);

  const WorkWeights& weights_;
  std::vector<CountedOperator> operators_;
  double host_ = 0;                         // log ms with the whole quota
  std::array<double, 2> correction_{0, 0};  // θ
  std::vector<TimeAt> own_quotas_;          // log ms
  bool device_bound_ = false;               // where the quotas were measured
};

}  // namespace sluice::predict
