// The predictor: how long a batch takes, hence how many inferences a second a slice yields. The
// control loop is handed one and teaches it; policies ask it. Neither depends on its kind: a table
// of `sluice profile`'s measurements today, learned models later.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/clock.h"
#include "model/device.h"
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

// What a prediction is about: a revision's model on devices of one type.
struct ModelOnDevice {
  FunctionName function;
  int revision = 0;
  std::string variant;  // of its model files; empty: the revision's own
  DeviceType device;
  Nanos window = Device().window;  // of the device's arbiter

  bool operator==(const ModelOnDevice&) const = default;
};

inline ModelOnDevice model_on(const FunctionName& function, int revision, const Device& device) {
  return {function, revision, "", type_of(device), device.window};
}

// The source of a prediction.
enum class PredictionSource {
  kMeasured,      // at that very point
  kInterpolated,  // between measured points
  kExtrapolated,  // beyond them
  kLearned,       // by a model of many functions
};

// The latency of one batch that runs alone.
struct Prediction {
  Nanos median{0};
  Nanos p95{0};            // ≥ median
  double uncertainty = 0;  // the true median is expected within median × (1 ± uncertainty)
  PredictionSource source = PredictionSource::kMeasured;
};

// What decisions count on: of a learned prediction its slower side.
inline Nanos cautious(const Prediction& p) {
  if (p.source != PredictionSource::kLearned) return p.median;
  return from_seconds(seconds(p.median) * (1 + p.uncertainty));
}

// What is worth considering, ascending.
struct Candidates {
  std::vector<int> batches;
  std::vector<Share> sms;
};

// One point as measured.
struct MeasuredPoint {
  Configuration at;
  Nanos median{0};        // of one batch
  Nanos p95{0};           // 0: not measured
  double throughput = 0;  // inferences per second, with work always waiting; 0: not measured
  bool filled = false;    // not measured itself: what the others say of it
  Share utilisation;      // of the time, in which its cores or SMs worked for it; 0: not measured
  Share occupancy;        // active warps, of those that fit the GPU, at its end; 0: not measured

  bool operator==(const MeasuredPoint&) const = default;
};

struct Measurement {
  ModelOnDevice of;
  Bytes memory = 0;  // of one instance, peak; 0: not measured
  std::vector<MeasuredPoint> points;
  // 0: measured. Otherwise the times are an estimate, expected within × (1 ± estimated).
  double estimated = 0;
};

// Several threads may call const functions at once; learn() and forget() exclude all others. Const
// functions are pure: they answer the same until the next learn() or forget().
class Predictor {
 public:
  virtual ~Predictor() = default;

  // Returns nothing where that model is unknown on that type. Monotone: neither quantile is longer
  // with more sm or quota.
  virtual std::optional<Prediction> predict(const ModelOnDevice&, const Configuration&) const = 0;

  // Returns empty lists where unknown.
  virtual Candidates candidates(const ModelOnDevice&) const = 0;

  // Returns the memory of one instance, or nothing where unknown.
  virtual std::optional<Bytes> memory(const ModelOnDevice&) const = 0;

  // Returns the inferences per second with work always waiting; 0 where unknown. Without a better
  // source that is batch ÷ the cautious median: alone, a batch also waits for its turn in the
  // window; in a queue that is another batch's time. Monotone like predict().
  virtual double throughput(const ModelOnDevice& m, const Configuration& c) const {
    const std::optional<Prediction> p = predict(m, c);
    return p && p->median > Nanos(0) ? c.batch / seconds(cautious(*p)) : 0.0;
  }

  // Takes in what was measured. A point replaces an earlier one at the same configuration.
  virtual void learn(const Measurement&) = 0;

  // Drops what was measured of all revisions of a function.
  virtual void forget(const FunctionName&) = 0;
};

}  // namespace sluice
