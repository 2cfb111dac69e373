// A cluster in a test: functions, devices and instances in a few lines, and a loop that carries
// actions out at once.
//
//   ClusterFixture c(4);                                     // four devices d0 … d3
//   c.function("a", Millis(100)).takes(Millis(10)).rate("a", 50);
//   c.tick();                                                // one decision, carried out
//   EXPECT_THAT(c.rules("a"), ElementsAre("new-device"));
#pragma once

#include <map>
#include <string>
#include <vector>

#include "policy/decide.h"
#include "policy/scale/scale_has_gpu.h"

namespace sluice::policy {

// t(b, s, q) = t₁ · (½ + ½·b) ÷ (speed of s · q): batching helps, half a device is enough for 4/5
// of the speed, quota is a share of time. A type of device may be slower.
class ToyPredictor : public Predictor {
 public:
  std::map<FunctionName, Nanos> alone;    // t₁: one request on a whole device
  std::map<DeviceType, double> slowness;  // of a type, if not 1; 0: not measured
  std::map<DeviceType, Bytes> needs;      // memory, by type
  double estimated = 0;                   // within so much; 0: measured
  Share helps_up_to = kWhole;             // more time is of no use

  std::optional<Prediction> predict(const ModelOnDevice& m, const Configuration& c) const override {
    if (!known(m) || c.quota <= kNone) return std::nullopt;
    const double s = c.sm.fraction();
    const double speed = s <= 0.5 ? s * 1.6 : 0.8 + (s - 0.5) * 0.4;
    const double whole = seconds(alone.at(m.function)) * slowness_of(m.device);
    const double quota = std::min(c.quota, helps_up_to).fraction();
    const Nanos t = from_seconds(whole * (0.5 + 0.5 * c.batch) / (speed * quota));
    if (estimated > 0) return Prediction{t, t, estimated, PredictionSource::kLearned};
    return Prediction{.median = t, .p95 = t};
  }
  Candidates candidates(const ModelOnDevice& m) const override {
    return known(m) ? Candidates{{1, 2, 4, 8}, {{250}, {500}, {1000}}} : Candidates{};
  }
  std::optional<Bytes> memory(const ModelOnDevice& m) const override {
    const auto found = needs.find(m.device);
    return found == needs.end() ? std::nullopt : std::optional(found->second);
  }
  void learn(const Measurement&) override {}
  void forget(const FunctionName& f) override { alone.erase(f); }

 private:
  double slowness_of(const DeviceType& type) const {
    const auto found = slowness.find(type);
    return found == slowness.end() ? 1 : found->second;
  }
  bool known(const ModelOnDevice& m) const {
    return alone.contains(m.function) && slowness_of(m.device) > 0;
  }
};

class ClusterFixture {
 public:
  explicit ClusterFixture(int devices, Share quantum = {250});

  // A function that takes `alone` on a whole device; Nanos(0): not measured.
  FunctionSpec& function(const std::string& name, Nanos slo, Nanos alone, int max_batch = 1);
  void rate(const std::string& name, double per_second) { view(name).forecast = per_second; }
  FunctionView& view(const std::string& name);
  Device& device(const std::string& id);
  const Device& device(const std::string& id) const;
  Instance& instance(const std::string& id, const std::string& function, const std::string& device,
                     Slice slice, Position position = {}, int batch = 1);

  // Time passes: starting instances are ready, draining ones gone.
  void become_ready(Nanos after);

  // Time passes, then a decision is made and carried out. A function with concurrency has just
  // received a request.
  const std::vector<Action>& tick(Nanos after = Seconds(2));
  std::vector<Action> decide();

  std::vector<std::string> rules(const std::string& function) const;  // of the last tick
  std::vector<const Instance*> instances(const std::string& function) const;
  double capacity(const std::string& function) const;
  void expect_sound() const;  // nothing overlaps, memory suffices, widths fit the quantum

  Snapshot now;
  ToyPredictor predictor;
  HasGpuSettings config;  // of all bundles with such settings, …
  bool recorded = false;  // … unless their own settings count
  std::string bundle = "has-gpu";
  std::string plan;  // the platform's
  LoanRules loans;
  Memories memories;
  Random random{1};

 private:
  std::vector<Action> last_;
  int started_ = 0;
};

inline FunctionName fn(const std::string& name) {
  return {"default", name};
}
inline Slice slice(int sm, int quota, Bytes memory = 0) {
  return {{sm}, {{quota}, {quota}}, memory};
}

// The actions of one kind.
template <class T>
std::vector<T> only(const std::vector<Action>& actions) {
  std::vector<T> found;
  for (const Action& a : actions) {
    if (const T* t = std::get_if<T>(&a.what)) found.push_back(*t);
  }
  return found;
}

}  // namespace sluice::policy
