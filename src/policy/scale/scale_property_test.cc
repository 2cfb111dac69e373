// Properties that every bundle keeps on any cluster. The seed is printed.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "arbiters/arbiter.h"
#include "tests/support/random_cluster.h"
#include "tests/support/sanitizers.h"

namespace sluice::policy {
namespace {

using testing::IsEmpty;

class Property : public testing::TestWithParam<uint64_t> {};

// tick() itself checks after every single action that nothing overlaps, memory suffices and widths
// fit the devices.
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

// The arbiters of a cluster's devices, informed of instances as node daemons would be.
class Arbiters {
 public:
  Arbiters(std::string_view kind, const Snapshot& snapshot) : now_(snapshot.now) {
    for (const Device& d : snapshot.devices) devices_[d.id] = *make_arbiter(kind, {});
    for (const Instance& i : snapshot.instances) EXPECT_TRUE(admit(i).ok());
  }
  Result<void> admit(const Instance& i) {
    const ClientId id =
        ids_.try_emplace(i.id, static_cast<ClientId>(ids_.size() + 1)).first->second;
    return devices_.at(i.device())->admit({id, i.slice().sm, i.slice().quota, i.position()}, now_);
  }

 private:
  Time now_;
  std::map<DeviceId, std::unique_ptr<Arbiter>> devices_;
  std::map<InstanceId, ClientId> ids_;
};

// Arbiters admit what placement hands out: in the order of the actions, one by one.
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
  const SnapshotIndex index(c.now);
  for (const Bundle& bundle : bundles()) {
    const std::vector<Settings> settings(mine.size(), bundle.settings);
    Memory memory;
    Input input{c.now,          index,  *find_placement(bundle.place),
                bundle.arbiter, mine,   settings,
                c.predictor,    memory, c.random};
    for (const Action& a : bundle.scale(input)) {
      EXPECT_TRUE(a.function == mine[0] || a.function == mine[1]) << bundle.name;
      EXPECT_FALSE(a.reason.rule.empty() || a.reason.text.empty()) << bundle.name;
      const auto* stop = std::get_if<StopInstance>(&a.what);
      const auto* resize = std::get_if<ResizeInstance>(&a.what);
      EXPECT_TRUE(stop == nullptr || own.contains(stop->instance));
      EXPECT_TRUE(resize == nullptr || own.contains(resize->instance));
    }
  }
}

// has-gpu claims "capacity_after"; the capacity after the tick is no less.
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

// A function that is not reported as unmet can do its forecast.
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
    for (const Action& a : c.tick()) {  // an unmet need is reported again, and nothing else is done
      EXPECT_TRUE(std::holds_alternative<Unmet>(a.what))
          << to_string(a.function) << ": " << a.reason.text;
    }
    if (testing::Test::HasFailure()) return;
  }
}

// The bundles whose scaling is that of no earlier one in the table.
std::vector<const Bundle*> each_scaling() {
  std::vector<const Bundle*> found;
  for (const Bundle& bundle : bundles())
    if (std::ranges::none_of(found, [&](const Bundle* b) { return b->scale == bundle.scale; }))
      found.push_back(&bundle);
  return found;
}

TEST_P(Property, EachScalingIsSoundAndSettlesAtAConstantLoad) {
  for (const Bundle* bundle : each_scaling()) {
    SCOPED_TRACE(std::string(bundle->name) + " " + std::to_string(GetParam()));
    RandomCluster c(GetParam());
    for (FunctionView& f : c.now.functions) f.spec.policy = bundle->name;
    for (int i = 0; i < 5; ++i) {
      c.change_rates();
      c.tick();
    }
    for (FunctionView& f : c.now.functions) f.queued = 0;  // as nothing works it off
    for (int i = 0; i < 120; ++i) c.tick(Seconds(3));      // longer than any bundle looks back
    for (int i = 0; i < 20; ++i) EXPECT_THAT(only<StartInstance>(c.tick(Seconds(3))), IsEmpty());
    if (testing::Test::HasFailure()) return;
  }
}

// Of fast-gshare, to which no random cluster's function belongs. Its arbiter admits every step.
TEST_P(Property, FastGshareIsSoundAndSettlesAtAConstantLoad) {
  SCOPED_TRACE(GetParam());
  RandomCluster c(GetParam());
  for (size_t f = 0; f < c.now.functions.size(); ++f)
    c.now.functions[f].spec.policy = f % 2 == 0 ? "fast-gshare" : "fast-gshare-paper";
  for (int i = 0; i < 20; ++i) {
    c.change_rates();
    c.tick(Seconds(3));
    Arbiters("multi_token", c.now);
    if (testing::Test::HasFailure()) return;
  }
  for (FunctionView& f : c.now.functions) f.queued = 0;
  for (int i = 0; i < 50; ++i) c.tick();
  for (int i = 0; i < 50; ++i) {
    for (const Action& a : c.tick())
      EXPECT_TRUE(std::holds_alternative<Unmet>(a.what))
          << to_string(a.function) << ": " << a.reason.text;
    if (testing::Test::HasFailure()) return;
  }
}

// Of dilu, to which no random cluster's function belongs.
TEST_P(Property, DiluIsSoundKeepsItsBoundsAndSettlesAtAConstantLoad) {
  SCOPED_TRACE(GetParam());
  RandomCluster c(GetParam());
  for (FunctionView& f : c.now.functions) {
    f.spec.policy = "dilu";
    const auto history = std::make_shared<ArrivalHistory>();
    history->add(Seconds(0), Seconds(600), c.random.below(60000));
    f.arrivals = history;
  }
  for (int i = 0; i < 200; ++i) c.tick(Seconds(1));
  for (const Device& d : c.now.devices) {
    int64_t request = 0, limit = 0;
    for (const Instance& i : c.now.instances) {
      if (i.device() != d.id || i.arbiter != "introspective") continue;
      request += i.slice().quota.request.permille;
      limit += i.slice().quota.limit.permille;
    }
    EXPECT_LE(request, 1000) << d.id;
    EXPECT_LE(limit, 1500) << d.id;
  }
  for (int i = 0; i < 50; ++i) EXPECT_THAT(only<StartInstance>(c.tick(Seconds(1))), IsEmpty());
}

// Sanitizers slow them tenfold, and check the code rather than the decisions.
INSTANTIATE_TEST_SUITE_P(Seeds, Property, testing::Range<uint64_t>(1, sanitized() ? 61 : 151));

}  // namespace
}  // namespace sluice::policy
