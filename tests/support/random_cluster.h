// A cluster from a seed, for properties and recordings: some devices, functions of random
// objectives under several bundles, and instances where lanes have space for them. Only test code
// includes this.
#pragma once

#include <algorithm>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/random.h"
#include "policy/place/place_lanes.h"
#include "tests/support/cluster.h"

namespace sluice::policy {

class RandomCluster : public ClusterFixture {
 public:
  explicit RandomCluster(uint64_t seed)
      : ClusterFixture(static_cast<int>(1 + Random(seed).below(5)),
                       {kQuanta[Random(seed + 1).below(4)]}),
        random_(seed) {
    config.borrow = random_.chance(0.5);
    config.work_off = random_.chance(0.5);
    for (Device& d : now.devices) {
      d.memory = 256 * kMiB;
      d.drained = random_.chance(0.1);
    }
    for (uint64_t n = 1 + random_.below(4); n > 0; --n) add_function("f" + std::to_string(n));
    for (const char* name : {"x", "y"}) add_function(name);
    for (Device& d : now.devices) fill(d);
  }

  void change_rates() {
    for (FunctionView& f : now.functions) {
      f.forecast = random_.chance(0.3) ? 0 : random_.exponential(80);
      f.concurrency = random_.exponential(2);
      f.concurrency_peak = f.concurrency + random_.exponential(1);
      f.queued = random_.chance(0.5) ? 0 : static_cast<int>(random_.below(40));
      f.violating = random_.chance(0.2);
    }
  }

  // For policies by more than rates: arrivals, latencies, measured instances, two types of device
  // that come and go, and functions at rest. To be called after change_rates().
  void change_all_else() {
    predictor.slowness[{"weak"}] = 3;
    for (size_t d = 0; d < now.devices.size(); ++d) {
      if (d % 2 == 1) now.devices[d].model = "weak", now.devices[d].price_per_hour = 0.3;
      now.devices[d].drained = random_.chance(0.1);
      now.devices[d].reachable = !random_.chance(0.1);
    }
    for (FunctionView& f : now.functions) {
      if (random_.chance(0.3)) f.forecast = f.concurrency = f.queued = 0;
      f.rate = f.forecast;
      f.in_flight = static_cast<int>(f.concurrency);
      f.start_cost = Seconds(2);
      const Nanos median = Millis(1 + random_.below(100));
      f.latency = {median, 2 * median, 3 * median};
      auto arrivals = std::make_shared<ArrivalHistory>(*f.arrivals);
      const Nanos at = now.now.time_since_epoch();
      arrivals->add(at - Seconds(3), at, static_cast<uint64_t>(3 * f.forecast));
      f.arrivals = std::move(arrivals);
    }
    MeasuredInstances measured;
    for (const Instance& i : now.instances) {
      if (i.state != InstanceState::kReady) continue;
      InstanceMeasurements& m = measured.emplace_back();
      m.instance = i.id;
      m.busy = {static_cast<int>(random_.below(1001))};
      m.inferences_per_second = m.answers_per_second = random_.exponential(40);
      m.latency = Millis(1 + random_.below(200));
      m.late = m.slow = m.latency > Millis(150) ? 0.5 : 0;
    }
    now.measured = std::make_shared<const MeasuredInstances>(std::move(measured));
  }

 private:
  static constexpr Bytes kMiB = 1 << 20;
  static constexpr int kQuanta[] = {100, 250, 300, 1000};

  void add_function(const std::string& name) {
    const Nanos alone = Millis(2 + random_.below(30));
    FunctionSpec& spec = function(name, alone * static_cast<int>(1 + random_.below(20)), alone,
                                  static_cast<int>(1 + random_.below(8)));
    spec.memory = static_cast<Bytes>(random_.below(64)) * kMiB;
    spec.inference().min_replicas = static_cast<int>(random_.below(3));
    spec.inference().max_replicas =
        random_.chance(0.5) ? static_cast<int>(1 + random_.below(4)) : 0;
    spec.priority = static_cast<int>(random_.below(3));
    if (random_.chance(0.2)) spec.slice = slice(250, 300);
    if (random_.chance(0.1)) predictor.alone.erase(fn(name));
    spec.policy =
        std::vector<std::string>{"has-gpu", "has-gpu", "fixed", "exclusive"}[random_.below(4)];
  }

  void fill(const Device& d) {
    Lanes lanes(d);
    for (uint64_t n = random_.below(5); n > 0; --n) {
      const auto open = lanes.openings(lanes.width({static_cast<int>(1 + random_.below(1000))}));
      if (open.empty()) return;
      const Share quota{static_cast<int>(1 + random_.below(open[0].quota.permille))};
      const FunctionSpec& spec = now.functions[random_.below(now.functions.size())].spec;
      if (lanes.free_memory() < spec.memory) return;
      const std::string id = d.id + "-" + std::to_string(n);
      lanes.place({.id = id, .quota = quota, .memory = spec.memory}, open[0]);
      Instance& i = instance(id, spec.name.name, d.id, {open[0].sm, {quota, quota}, spec.memory},
                             lanes.room(id).position, static_cast<int>(1 + random_.below(8)));
      const InstanceState states[] = {InstanceState::kReady, InstanceState::kStarting,
                                      InstanceState::kDraining};
      i.state = states[random_.below(3)];
      i.revision = random_.chance(0.8) ? 1 : 7;
    }
  }

  Random random_;
};

}  // namespace sluice::policy
