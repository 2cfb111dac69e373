// Every reason that the policies give, as people read it: one line each, with its numbers.
#include <gtest/gtest.h>

#include <cstdio>

#include "policy/cluster_fixture.h"

namespace sluice::policy {
namespace {

class Reasons : public testing::Test {
 protected:
  // The reason with that rule in the next tick; none is an empty line.
  void expect(ClusterFixture& c, const std::string& rule, const std::string& text) {
    std::string found;
    for (const Action& a : c.tick()) {
      if (a.reason.rule != rule || !found.empty()) continue;
      found = a.reason.text;
      for (const auto& [name, value] : a.reason.numbers) {
        char number[64];
        std::snprintf(number, sizeof number, " %s=%.4g", name.c_str(), value);
        found += number;
      }
    }
    EXPECT_EQ(found, text) << rule;
  }
};

// A model of which a whole device does 100 requests a second; up to 90 % of a capacity is used.
TEST_F(Reasons, OfHasGpu) {
  ClusterFixture c(2);
  c.function("a", Millis(100), Millis(10)).max_replicas = 2;
  c.rate("a", 2);
  expect(c, "new-device",
         "2.0/s expected and no instance to carry it. An instance, sm 50 % × quota 20 % on d0, "
         "batch 1, brings 16.0/s. forecast=2 capacity_after=16");
  c.rate("a", 30);
  expect(c, "vertical-up",
         "16.0/s at 90 % carries 14.4/s; 30.0/s expected. Quota 20 % → 50 % on d0 makes it "
         "40.0/s. forecast=30 capacity=16 capacity_after=40");
  c.rate("a", 80);
  expect(c, "used-device",
         "80.0/s at 90 % carries 72.0/s; 80.0/s expected. Another instance, sm 50 % × quota 20 % "
         "on d0, batch 1, brings 16.0/s. forecast=80 capacity=80 capacity_after=96");
  c.rate("a", 500);
  expect(c, "max-replicas",
         "160.0/s at 90 % carries 144.0/s; 500.0/s expected, 395.6/s stay uncovered: maxReplicas "
         "allows 2, and all of them have the most quota that their lanes have. forecast=500 "
         "capacity=160 gap=395.6");
  c.rate("a", 25);
  expect(c, "scale-in",
         "25.0/s expected, below 30 % of the capacity of 160.0/s: the other one can do 80.0/s. "
         "forecast=25 capacity=160 capacity_after=80");
  c.rate("a", 0);
  c.now.now += Seconds(10);
  expect(c, "vertical-down",
         "No load expected, below 30 % of the capacity of 32.0/s: quota 40 % → 20 % on d0 leaves "
         "16.0/s. capacity=32 capacity_after=16");
  c.device(c.instances("a").at(0)->device).drained = true;
  c.tick();
  expect(c, "drained-device",
         "Device d0 is cordoned, and 1 instance elsewhere is ready, which can do 16.0/s. "
         "capacity_after=16");
  c.view("a").revision = 2;
  expect(c, "retired", "Revision 1 has no traffic any more. revision=1");
}

TEST_F(Reasons, OfHasGpuForWhatNothingIsKnownOf) {
  ClusterFixture c(1);
  c.function("a", Millis(100), Nanos(0));
  expect(c, "keep-alive",
         "One instance always stays: sm 100 % × quota 25 % on d0, an equal share, as the model "
         "was never measured (sluice profile).");
  c.view("a").spec.min_replicas = 6;
  expect(c, "cluster-full",
         "6 instances always stay (minReplicas), and 4 run: of 1 device none has room for sm 100 "
         "% × quota 25 %: 1 is too full (nothing is free). a (never measured) holds 100 % of a "
         "device. devices_full=1");
  c.function("b", Millis(5), Millis(10));
  expect(c, "slo-impossible",
         "No slice meets the objective of 5.0 ms: a whole device answers one request in 10.0 ms. "
         "fastest_ms=10");
}

TEST_F(Reasons, OfHasGpuForWantOfMemory) {
  ClusterFixture c(2);
  c.function("a", Millis(100), Millis(10)).memory = Bytes{2} << 30;
  c.rate("a", 2);
  expect(c, "cluster-full",
         "2.0/s expected and no instance to carry it, 2.2/s stay uncovered: of 2 devices none has "
         "room for a slice that answers within 100.0 ms: 2 lack 2048 MiB of memory (at most 1024 "
         "MiB is free). forecast=2 gap=2.222 devices_without_memory=2");
}

TEST_F(Reasons, OfFixed) {
  ClusterFixture c(2);
  c.bundle = "fixed";
  c.function("a", Millis(100), Millis(10)).slice = slice(500, 300);
  expect(c, "start",
         "One instance with a fixed slice always stays. Started: sm 50 % × quota 30 % on d0. "
         "replicas=1");
  c.device("d0").drained = true;
  c.tick();
  expect(c, "replaced", "Device d0 is cordoned. Others are ready in its place. replicas=1");
  c.view("a").spec.min_replicas = 8;
  expect(c, "cluster-full",
         "8 instances with a fixed slice always stay (minReplicas). 2 could not be started: of 2 "
         "devices none has room for sm 50 % × quota 30 %: 1 is too full (at most sm 50 % × quota "
         "10 % is free, on d1), 1 is cordoned. a holds 90 % of a device. replicas=8 "
         "devices_full=1 devices_drained=1 most_free=0.05");
}

TEST_F(Reasons, OfExclusive) {
  ClusterFixture c(3);
  c.bundle = "exclusive";
  c.function("a", Millis(100), Millis(10)).container_concurrency = 10;
  c.view("a").concurrency = 9;
  expect(c, "start",
         "9.0 requests at once; one instance takes 7.0. Started: sm 100 % × quota 100 % on d0. "
         "concurrency=9 concurrency_peak=9 target=7");
  c.view("a").concurrency = 0;
  c.view("a").concurrency_peak = 3;
  c.now.now += Seconds(60);
  expect(c, "stop",
         "No requests at once, up to 3.0 in the last minute; one instance takes 7.0. "
         "concurrency_peak=3 target=7");
}

}  // namespace
}  // namespace sluice::policy
