// A cluster in a test with training jobs beside its functions. Only test code includes this.
//
//   JobCluster c(4);
//   c.job("j", {.least = 2});
//   c.tick();
//   EXPECT_EQ(c.workers("j"), "d0 d1 d2 d3");
#pragma once

#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "tests/support/cluster.h"

namespace sluice::policy {

struct JobShape {
  int least = 1, most = 0;
  int priority = 0;
  Bytes memory = 0;
};

class JobCluster : public ClusterFixture {
 public:
  explicit JobCluster(int devices) : ClusterFixture(devices) {}

  // Jobs are submitted a second after each other.
  FunctionView& job(const std::string& name, const JobShape& shape = {}) {
    function(name, Nanos(0), Nanos(0));
    FunctionView& v = view(name);
    v.spec.device = "any";
    v.spec.kind = TrainingSpec{.epochs = 10, .min_workers = shape.least, .max_workers = shape.most};
    v.spec.priority = shape.priority;
    v.spec.memory = shape.memory;
    v.job = JobView{.submitted = now.now + Seconds(++submitted_) - Seconds(60)};
    return v;
  }
  JobView& state(const std::string& name) { return *view(name).job; }

  // Inference uses that share of a device: an instance that requests it, or a measured one.
  void used(const std::string& device, int permille) {
    const std::string id = "used-" + device;
    if (std::ranges::find(now.instances, id, &Instance::id) == now.instances.end())
      instance(id, "other", device, slice(1000, 50));
    MeasuredInstances measured = now.measured ? *now.measured : MeasuredInstances{};
    std::erase_if(measured, [&](const InstanceMeasurements& m) { return m.instance == id; });
    measured.push_back({.instance = id, .busy = {permille}});
    std::ranges::sort(measured, {}, &InstanceMeasurements::instance);
    now.measured = std::make_shared<const MeasuredInstances>(std::move(measured));
  }

  // The devices of a job's workers that start or are ready: "d0 d2".
  std::string workers(const std::string& name) const {
    std::vector<std::string> devices;
    for (const Instance* i : instances(name)) devices.push_back(i->device());
    std::ranges::sort(devices);
    std::string text;
    for (const std::string& d : devices) text += (text.empty() ? "" : " ") + d;
    return text;
  }
  // The first reason of the last tick for that function: "rule: text".
  std::string why(const std::string& function, const std::vector<Action>& actions) const {
    for (const Action& a : actions)
      if (a.function == fn(function)) return a.reason.rule + ": " + a.reason.text;
    return "";
  }

 private:
  int submitted_ = 0;
};

}  // namespace sluice::policy
