// Properties that every bundle keeps, whatever the cluster looks like. The seed is printed.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <memory>
#include <set>

#include "policy/random_cluster.h"
#include "policy/share.h"

namespace sluice::policy {
namespace {

using testing::IsEmpty;

class Property : public testing::TestWithParam<uint64_t> {};

// tick() itself checks after every single action that nothing overlaps, memory suffices and widths
// are what the devices can hold.
TEST_P(Property, EveryStepIsSound) {
  SCOPED_TRACE(GetParam());
  RandomCluster c(GetParam());
  c.expect_sound();
  for (int i = 0; i < 20; ++i) {
    c.change_rates();
    c.tick(Seconds(3));
    if (testing::Test::HasFailure()) return;
  }
}

// The arbiters of a cluster's devices, as node daemons would be told of instances.
class Arbiters {
 public:
  Arbiters(std::string_view kind, const Snapshot& snapshot) : now_(snapshot.now) {
    for (const Device& d : snapshot.devices) devices_[d.id] = *make_arbiter(kind, {});
    for (const Instance& i : snapshot.instances) EXPECT_TRUE(admit(i).ok());
  }
  Result<void> admit(const Instance& i) {
    const ClientId id =
        ids_.try_emplace(i.id, static_cast<ClientId>(ids_.size() + 1)).first->second;
    return devices_.at(i.device)->admit({id, i.slice.sm, i.slice.quota, i.position}, now_);
  }

 private:
  Time now_;
  std::map<DeviceId, std::unique_ptr<Arbiter>> devices_;
  std::map<InstanceId, ClientId> ids_;
};

// What placement hands out, arbiters admit: in the order of the actions, one by one.
TEST_P(Property, ArbitersAdmitEveryStep) {
  SCOPED_TRACE(GetParam());
  for (const std::string_view kind : {"planned", "window"}) {
    RandomCluster c(GetParam());
    for (int i = 0; i < 10; ++i) {
      c.change_rates();
      c.become_ready(Seconds(3));
      Arbiters arbiters(kind, c.now);
      int started = 1000 * i;
      for (const Action& a : c.decide()) {
        const std::vector<Instance> before = c.now.instances;
        carry_out(c.now, std::span(&a, 1), "i", started);
        for (const Instance& instance : c.now.instances) {
          if (std::find(before.begin(), before.end(), instance) != before.end()) continue;
          const Result<void> admitted = arbiters.admit(instance);
          EXPECT_TRUE(admitted.ok()) << kind << ": " << admitted.error().message;
        }
      }
      if (testing::Test::HasFailure()) return;
    }
  }
}

TEST_P(Property, EqualInputGivesEqualOutput) {
  SCOPED_TRACE(GetParam());
  RandomCluster c(GetParam());
  c.change_rates();
  EXPECT_EQ(c.decide(), c.decide());
}

TEST_P(Property, OnlyItsOwnFunctionsAreTouched) {
  SCOPED_TRACE(GetParam());
  RandomCluster c(GetParam());
  c.change_rates();
  const std::vector<FunctionName> mine = {fn("f1"), fn("x")};
  std::set<InstanceId> own;
  for (const Instance& i : c.now.instances) {
    if (i.function == mine[0] || i.function == mine[1]) own.insert(i.id);
  }
  for (const Bundle& bundle : bundles()) {
    const std::vector<Settings> settings(mine.size(), bundle.settings);
    Memory memory;
    Turn turn{c.now, mine, settings, c.predictor, memory, c.random};
    for (const Action& a : bundle.scale(turn)) {
      EXPECT_TRUE(a.function == mine[0] || a.function == mine[1]) << bundle.name;
      EXPECT_FALSE(a.reason.rule.empty() || a.reason.text.empty()) << bundle.name;
      const auto* stop = std::get_if<StopInstance>(&a.what);
      const auto* resize = std::get_if<ResizeInstance>(&a.what);
      EXPECT_TRUE(stop == nullptr || own.contains(stop->instance));
      EXPECT_TRUE(resize == nullptr || own.contains(resize->instance));
    }
  }
}

// has-gpu claims "capacity_after"; what is there after the tick is no less.
TEST_P(Property, CapacityIsWhatTheReasonsClaim) {
  SCOPED_TRACE(GetParam());
  RandomCluster c(GetParam());
  for (FunctionView& f : c.now.functions) f.spec.policy = "has-gpu";
  c.change_rates();
  const auto actions = c.tick();
  for (const Action& a : actions) {
    for (const auto& [name, claimed] : a.reason.numbers) {
      if (name != "capacity_after" || a.reason.rule == "vertical-down" ||
          a.reason.rule == "scale-in")
        continue;
      EXPECT_GE(c.capacity(a.function.name) * (1 + 1e-9), claimed) << a.reason.rule;
    }
  }
}

// Whoever is not reported as unmet can do what is forecast.
TEST_P(Property, WhatIsNotReportedIsCovered) {
  SCOPED_TRACE(GetParam());
  RandomCluster c(GetParam());
  for (FunctionView& f : c.now.functions) f.spec.policy = "has-gpu";
  c.change_rates();
  std::set<FunctionName> unmet;
  for (const Action& a : c.tick()) {
    if (std::holds_alternative<Unmet>(a.what)) unmet.insert(a.function);
  }
  for (const FunctionView& f : c.now.functions) {
    if (unmet.contains(f.spec.name) || !c.predictor.alone.contains(f.spec.name)) continue;
    EXPECT_LE(f.forecast, c.config.alpha * c.capacity(f.spec.name.name) * (1 + 1e-9))
        << f.spec.name.name;
  }
}

TEST_P(Property, AtAConstantRateItSettles) {
  SCOPED_TRACE(GetParam());
  RandomCluster c(GetParam());
  c.change_rates();
  for (int i = 0; i < 50; ++i) c.tick();
  for (int i = 0; i < 100; ++i) {
    for (const Action& a : c.tick()) {  // what cannot be met is said again, nothing else is done
      EXPECT_TRUE(std::holds_alternative<Unmet>(a.what))
          << to_string(a.function) << ": " << a.reason.text;
    }
    if (testing::Test::HasFailure()) return;
  }
}

INSTANTIATE_TEST_SUITE_P(Seeds, Property, testing::Range<uint64_t>(1, 151));

}  // namespace
}  // namespace sluice::policy
