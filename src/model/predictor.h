// The predictor: how long a batch takes, hence how many inferences a second a slice brings (H5).
// A table measured by `sluice profile` today, learned models later; policies see this alone.
#pragma once

#include <optional>
#include <vector>

#include "base/clock.h"
#include "model/function.h"
#include "model/slice.h"

namespace sluice {

// A point at which an instance can run.
struct Configuration {
  int batch = 1;
  Share sm = kWhole;
  Share quota = kWhole;

  auto operator<=>(const Configuration&) const = default;
};

// Thread-safe: const, and pure.
class Predictor {
 public:
  virtual ~Predictor() = default;

  // Latency of one batch at that point; nothing where the function was never measured. Monotone:
  // never longer with more sm or quota.
  virtual std::optional<Nanos> latency(const FunctionName&, int revision,
                                       const Configuration&) const = 0;

  // Batch sizes and spatial shares worth considering, ascending; empty where unknown.
  virtual std::vector<int> batches(const FunctionName&, int revision) const = 0;
  virtual std::vector<Share> sms(const FunctionName&, int revision) const = 0;

  // Memory of one instance, measured; nothing where unknown.
  virtual std::optional<Bytes> memory(const FunctionName&, int revision) const = 0;

  // Inferences per second with work always waiting: batch ÷ latency unless it knows better (alone,
  // a batch also waits for its turn in the window; in a queue that is another batch's time). 0
  // where unknown. Monotone like latency.
  virtual double throughput(const FunctionName& f, int revision, const Configuration& c) const {
    const std::optional<Nanos> t = latency(f, revision, c);
    return t && t->count() > 0 ? c.batch / seconds(*t) : 0.0;
  }
};

}  // namespace sluice
