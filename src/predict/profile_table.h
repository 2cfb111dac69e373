// ProfileTable: the Predictor over what `sluice profile` measured on this machine: points (batch,
// sm, quota) with the latency of one batch alone and the throughput under a full queue. In between,
// times are interpolated (see surface.h) and made monotone. Beyond the measured quotas
//
//   latency(q)          = latency(1) ÷ q + (1 − q) · window   the work takes 1 ÷ q as long, and its
//                                                             turn may be the rest of a window away
//   batch ÷ throughput  = the same without the wait: in a full queue that is another batch's time
//
// A function or revision that was never measured is unknown. A plain value once filled: const
// methods may be called from any thread.
#pragma once

#include <map>
#include <vector>

#include "model/predictor.h"
#include "predict/surface.h"

namespace sluice::predict {

// One measured point; the store and `sluice profile` keep these.
struct ProfilePoint {
  Configuration at;
  Nanos latency_p50{0};  // of one batch
  Nanos latency_p95{0};
  double throughput = 0;  // inferences per second, with work always waiting

  bool operator==(const ProfilePoint&) const = default;
};

struct Profile {
  FunctionName function;
  int revision = 0;
  Bytes memory = 0;  // of one instance, peak; 0: not measured
  std::vector<ProfilePoint> points;

  bool operator==(const Profile&) const = default;
};

class ProfileTable : public Predictor {
 public:
  // `window` is the arbiter's. A point with a batch or a share ≤ 0, or without latency, is no
  // point.
  explicit ProfileTable(Nanos window) : window_(window) {}

  // Adds a profile, or replaces the one of that revision.
  void set(const Profile& profile);

  // The median latency.
  std::optional<Nanos> latency(const FunctionName&, int revision,
                               const Configuration&) const override;
  std::vector<int> batches(const FunctionName&, int revision) const override;
  std::vector<Share> sms(const FunctionName&, int revision) const override;
  std::optional<Bytes> memory(const FunctionName&, int revision) const override;
  double throughput(const FunctionName&, int revision, const Configuration&) const override;

 private:
  struct Table {
    Surface latency, service;  // service: batch ÷ throughput
    Bytes memory = 0;
  };
  const Table* find(const FunctionName&, int revision) const;

  Nanos window_;
  std::map<std::pair<FunctionName, int>, Table> tables_;
};

}  // namespace sluice::predict
