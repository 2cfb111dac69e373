#include "control/notices.h"

#include <gtest/gtest.h>

namespace sluice::control {
namespace {

Observation seen(const std::string& fault, const std::string& error) {
  Observation o{.nodes = {{.node = {.boot_id = "boot"}}}};
  o.devices.push_back({.id = "cuda0", .fault = fault});
  o.instances.push_back(
      {.instance = {.id = "train", .parts = {{"cuda0", {}, {}}}}, .error = error});
  return o;
}

std::vector<std::string> rules(const std::vector<Decision>& decisions) {
  std::vector<std::string> out;
  for (const Decision& d : decisions) out.push_back(d.subject + " " + d.reason.rule);
  return out;
}
using Rules = std::vector<std::string>;

TEST(Notices, AFaultIsSaidOnceAndAnotherOneAgain) {
  Notices notices;
  const Observation sound = seen("", ""), failing = seen("Xid 79", "");
  EXPECT_TRUE(notices.step({}, sound, 1).empty());
  EXPECT_EQ(rules(notices.step(sound, failing, 2)), Rules{"cuda0 fault"});
  EXPECT_TRUE(notices.step(failing, failing, 3).empty());
  EXPECT_TRUE(notices.step({.nodes = failing.nodes}, failing, 4).empty())
      << "it was away, and is back";
  EXPECT_EQ(rules(notices.step(failing, seen("Xid 48", ""), 5)), Rules{"cuda0 fault"});
}

TEST(Notices, AnUnheldInstanceIsSaidWhenItBeginsAndWhenItIsOver) {
  Notices notices;
  const Observation held = seen("", ""), unheld = seen("", "its cgroup is gone");
  EXPECT_EQ(rules(notices.step({}, unheld, 1)), Rules{"train unheld"});
  EXPECT_TRUE(notices.step(unheld, unheld, 2).empty());
  EXPECT_EQ(rules(notices.step(unheld, held, 3)), Rules{"train held"});
  EXPECT_TRUE(notices.step(held, held, 4).empty());
}

TEST(Notices, WhatTheLoopBeforeHasSaidIsNotSaidAtTheFirstLook) {
  const Observation now = seen("Xid 79", "its cgroup is gone");
  Notices first;
  std::map<std::string, Reason> noticed;
  for (const Decision& d : first.step({}, now, 1)) noticed[d.subject] = d.reason;
  EXPECT_EQ(noticed.size(), 2u);
  Notices second(noticed);
  EXPECT_TRUE(second.step({}, now, 2).empty());
  Notices third(noticed);
  EXPECT_EQ(rules(third.step({}, seen("Xid 79", ""), 2)), Rules{"train held"});
}

TEST(Notices, AProgramThatEndsWithItsDeviceAndUngatedUseAreSaidOnce) {
  Notices notices;
  Observation before = seen("", ""), now = before;
  now.instances[0].ungated = Millis(3);
  EXPECT_EQ(rules(notices.step(before, now, 1)), Rules{"train ungated"});
  before = now;
  now.instances[0].ungated = Millis(9);
  now.instances[0].device_fault = "Xid 79";
  EXPECT_EQ(rules(notices.step(before, now, 2)), Rules{"train fault"});
  EXPECT_TRUE(notices.step(now, now, 3).empty());
}

TEST(Notices, OfSeveralDevicesTheOneThatFailsIsNamed) {
  Observation before = seen("", "");
  before.devices.push_back({.id = "cuda1"});
  before.instances[0].instance.parts.push_back({"cuda1", {}, {}});
  Observation now = before;
  now.devices[1].fault = now.instances[0].device_fault = "Xid 79";
  const std::vector<Decision> found = Notices().step(before, now, 1);
  EXPECT_EQ(rules(found), (Rules{"cuda1 fault", "train fault"}));
  EXPECT_EQ(found.back().reason.text,
            "Program train was ended, as its device cuda1 fails: Xid 79.");
}

}  // namespace
}  // namespace sluice::control
