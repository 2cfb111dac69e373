#include "tests/support/cluster.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <utility>

#include "policy/place/place_lanes.h"

namespace sluice::policy {

ClusterFixture::ClusterFixture(int devices, Share quantum) {
  now.now = Time(Seconds(1000));
  for (int i = 0; i < devices; ++i) {
    Device d;
    d.id = "d" + std::to_string(i);
    d.memory = Bytes{1} << 30;
    d.sm_quantum = quantum;
    now.devices.push_back(d);
  }
}

FunctionSpec& ClusterFixture::function(const std::string& name, Nanos slo, Nanos alone,
                                       int max_batch) {
  FunctionView v;
  v.spec.name = fn(name);
  v.spec.device = "any";
  v.spec.inference().slo.latency = slo;
  v.spec.inference().batching.max_size = max_batch;
  v.revision = 1;
  if (alone > Nanos(0)) predictor.alone[fn(name)] = alone;
  const auto at = std::find_if(now.functions.begin(), now.functions.end(),
                               [&](const FunctionView& f) { return f.spec.name > fn(name); });
  return now.functions.insert(at, v)->spec;
}

FunctionView& ClusterFixture::view(const std::string& name) {
  for (FunctionView& f : now.functions) {
    if (f.spec.name == fn(name)) return f;
  }
  ADD_FAILURE() << "no function " << name;
  return now.functions.front();
}

const Device& ClusterFixture::device(const std::string& id) const {
  for (const Device& d : now.devices) {
    if (d.id == id) return d;
  }
  ADD_FAILURE() << "no device " << id;
  return now.devices.front();
}

Device& ClusterFixture::device(const std::string& id) {
  return const_cast<Device&>(std::as_const(*this).device(id));
}

Instance& ClusterFixture::instance(const std::string& id, const std::string& function,
                                   const std::string& device, Slice slice, Position position,
                                   int batch) {
  const Instance added{id,    fn(function), 1, InstanceState::kReady, {{device, slice, position}},
                       batch, now.now,      ""};
  const auto at = std::find_if(now.instances.begin(), now.instances.end(),
                               [&](const Instance& i) { return i.id > id; });
  return *now.instances.insert(at, added);
}

void ClusterFixture::become_ready(Nanos after) {
  now.now += after;
  std::erase_if(now.instances,
                [](const Instance& i) { return i.state == InstanceState::kDraining; });
  for (Instance& i : now.instances) {
    if (i.state == InstanceState::kStarting) i.state = InstanceState::kReady;
  }
}

std::vector<Action> ClusterFixture::decide() {
  std::vector<Bundle> table(bundles().begin(), bundles().end());
  if (!recorded)
    for (Bundle& b : table)
      if (b.settings.is<HasGpuSettings>()) b.settings = Settings(config);
  return policy::decide(now, {bundle, {}, plan, loans}, predictor, memories, random, table);
}

const std::vector<Action>& ClusterFixture::tick(Nanos after) {
  become_ready(after);
  for (FunctionView& f : now.functions)
    if (f.concurrency > 0) f.last_request = now.now;
  last_ = decide();
  for (const Action& action : last_) {  // one by one: nothing may overlap on the way either
    carry_out(now, std::span(&action, 1), "i", started_);
    expect_sound();
  }
  return last_;
}

std::vector<std::string> ClusterFixture::rules(const std::string& function) const {
  std::vector<std::string> rules;
  for (const Action& a : last_) {
    if (a.function == fn(function)) rules.push_back(a.reason.rule);
  }
  return rules;
}

std::vector<const Instance*> ClusterFixture::instances(const std::string& function) const {
  std::vector<const Instance*> found;
  for (const Instance& i : now.instances) {
    if (i.function == fn(function) && i.state != InstanceState::kDraining) found.push_back(&i);
  }
  return found;
}

double ClusterFixture::capacity(const std::string& function) const {
  double sum = 0;
  for (const Instance* i : instances(function)) {
    sum += predictor.throughput(model_on(i->function, i->revision, device(i->device())),
                                {i->batch, i->slice().sm, i->slice().quota.request});
  }
  return sum;
}

void ClusterFixture::expect_sound() const {
  for (const Device& d : now.devices) {
    std::vector<Room> rooms;
    Bytes memory = 0;
    for (const Instance& i : now.instances) {
      if (i.device() != d.id) continue;
      const Room r{i.id,         i.slice().sm,     i.slice().quota.request,
                   i.position(), i.slice().memory, false};
      EXPECT_GE(r.position.time_begin, kNone) << i.id;
      EXPECT_LE(r.position.time_begin + r.quota, kWhole) << i.id;
      EXPECT_LE(r.position.sm_begin + r.sm, kWhole) << i.id;
      EXPECT_TRUE(r.sm == kWhole || r.sm.permille % d.sm_quantum.permille == 0) << i.id;
      for (const Room& other : rooms)
        EXPECT_FALSE(overlap(r, other)) << i.id << " and " << other.id;
      rooms.push_back(r);
      memory += i.slice().memory;
    }
    EXPECT_LE(memory, d.memory) << d.id;
  }
}

}  // namespace sluice::policy
