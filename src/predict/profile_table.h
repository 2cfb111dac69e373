// ProfileTable: the Predictor over measurements of `sluice profile`: points (batch, sm, quota) with
// the latency of one batch alone and the throughput under a full queue, by model and type of
// device. In between, times are interpolated (see surface.h) and made monotone. Beyond the measured
// quotas
//
//   latency(q)          = latency(1) ÷ q + (1 − q) · window   the work takes 1 ÷ q as long, and its
//                                                             turn may be the rest of a window away
//   batch ÷ throughput  = the same without the wait: in a full queue that is another batch's time
//
// with the window of the device in question. Points may be an estimate instead (Measurement): they
// hold until the first measurement, and their throughput is that of the slower side. A function,
// revision or type of which nothing was learned is unknown.
// Threads: as every Predictor.
#pragma once

#include <unordered_map>
#include <vector>

#include "model/predictor.h"
#include "predict/surface.h"

namespace sluice::predict {

class ProfileTable : public Predictor {
 public:
  std::optional<Prediction> predict(const ModelOnDevice&, const Configuration&) const override;
  Candidates candidates(const ModelOnDevice&) const override;
  std::optional<Bytes> memory(const ModelOnDevice&) const override;
  double throughput(const ModelOnDevice&, const Configuration&) const override;

  // A point with a batch or a share ≤ 0, or without a median, is no point. The measurement's window
  // does not matter.
  void learn(const Measurement&) override;
  void forget(const FunctionName&) override;

 private:
  struct Table {
    Surface median, p95, service;  // service: batch ÷ throughput
    Bytes memory = 0;
    double estimated = 0;  // as Measurement's
  };
  struct Entry {
    ModelOnDevice of;  // its window does not matter
    Table table;
  };
  struct Hash {
    size_t operator()(const FunctionName& f) const;
  };
  const Table* find(const ModelOnDevice&) const;

  // A few for each function. Hashed, since a decision asks for thousands.
  std::unordered_map<FunctionName, std::vector<Entry>, Hash> entries_;
};

}  // namespace sluice::predict
