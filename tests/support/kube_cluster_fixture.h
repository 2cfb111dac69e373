// The loop over KubeCluster: agents and gateways that come, go silent and return, controllers that
// die between two orders, Pods that cannot be made (src/control/kube/kube_cluster_test.cc and
// its neighbours).
#pragma once

#include <gmock/gmock.h>

#include "control/control.h"
#include "control/desired_memory.h"
#include "control/journal_memory.h"
#include "control/kube/kube_cluster.h"
#include "control/requests.h"
#include "predict/profile_table.h"
#include "tests/support/eventually.h"
#include "tests/support/kube_bed.h"

namespace sluice::control {

inline const FunctionName kF{.name = "f"};

// Two nodes of a device each, and two gateways.
class KubeClusterTest : public testing::Test {
 protected:
  KubeClusterTest() {
    truth.devices.clear();
    truth.add_node("a");
    truth.add_node("b");
    truth.add_gateway("gateway-b");
    bed.emplace(truth, mutex);
    take_over();
  }
  // A controller starts, after the one before, if any, has died.
  void take_over(int64_t routes_floor = 1'000'000) {
    control.reset();
    cluster.reset();
    cluster = bed->controller(routes_floor);
    control = std::move(*Control::open({desired, journal, *cluster, predictor, bed->clock},
                                       {.bundle = "fixed", .boot_id = "boot"}));
  }
  void apply(int replicas) {
    FunctionSpec s{.name = kF};
    s.inference().model.path = "/m.pt";
    s.inference().min_replicas = replicas;
    s.slice = Slice{.sm = kWhole, .quota = {{600}, {600}}};
    ASSERT_TRUE(Requests(*control).apply({std::move(s)}, false, wall).ok());
  }
  Observation observe() {
    cluster->poll();
    EXPECT_TRUE(eventually("answers", [&] { return cluster->settled(); }));
    return cluster->observe();
  }
  static StartOrder start_of(const InstanceId& id) {
    const Part part{"a/cpu0", {.sm = kWhole, .quota = {{300}, {300}}}, {}};
    return {.instance = {.id = id, .function = kF, .revision = 1, .parts = {part}}};
  }
  // One tick, a quarter of a second after the last one.
  void tick() {
    bed->clock.advance(Millis(250));
    wall += 250;
    cluster->poll();
    EXPECT_TRUE(eventually("answers", [&] { return cluster->settled(); }));
    control->step(wall);
  }
  void ticks(Nanos span) {
    for (Nanos done{0}; done < span; done += Millis(250)) {
      tick();
      bed->run_pods();
    }
  }
  // Ticks until it holds; for ten minutes at most.
  template <class Condition>
  testing::AssertionResult comes(std::string_view what, const Condition& condition) {
    for (int i = 0; i < 2400; ++i) {
      if (condition()) return testing::AssertionSuccess();
      ticks(Millis(250));
    }
    return testing::AssertionFailure() << "waited in vain for " << what;
  }
  std::vector<InstanceId> in_state(InstanceState state) {
    const std::lock_guard lock(mutex);
    std::vector<InstanceId> ids;
    for (const ObservedInstance& o : truth.seen.instances)
      if (o.instance.state == state) ids.push_back(o.instance.id);
    return ids;
  }
  std::vector<InstanceId> ready() { return in_state(InstanceState::kReady); }
  // Returns whether so many instances are ready, and each Pod is of one of them.
  bool serves(size_t replicas) {
    const std::vector<InstanceId> ids = ready();
    if (ids.size() != replicas || bed->objects.all_pods.size() != replicas) return false;
    return std::ranges::all_of(ids,
                               [&](const auto& id) { return bed->objects.all_pods.contains(id); });
  }
  int starts() {
    const std::lock_guard lock(mutex);
    return truth.starts;
  }
  int stops() {
    const std::lock_guard lock(mutex);
    return truth.stops;
  }
  int64_t version_at(const std::string& gateway) {
    const std::lock_guard lock(mutex);
    return std::ranges::find(truth.seen.gateways, gateway, &ObservedGateway::name)->routes_version;
  }
  std::vector<std::string> said(const std::string& rule) {
    std::vector<std::string> texts;
    const std::vector<Decision> all = journal.decisions({}, 1000).value();
    for (const Decision& d : all)
      if (d.reason.rule == rule) texts.push_back(d.reason.text);
    return texts;
  }

  std::mutex mutex;
  ManualClock of_truth;
  FakeCluster truth{of_truth};
  std::optional<KubeBed> bed;
  UnixMillis wall = 1'000'000'000'000;
  MemoryDesiredState desired;
  MemoryJournal journal;
  predict::ProfileTable predictor;
  std::unique_ptr<KubeCluster> cluster;
  std::unique_ptr<Control> control;
};

}  // namespace sluice::control
