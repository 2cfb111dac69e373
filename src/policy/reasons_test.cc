// Every reason that the policies give, as people see it: one line each, with its numbers.
#include <gtest/gtest.h>

#include <cstdio>
#include <memory>

#include "tests/support/cluster.h"

namespace sluice::policy {
namespace {

class Reasons : public testing::Test {
 protected:
  // Expects the reason with that rule in the next tick; an empty line if there is none.
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

// A model that does 100 requests a second on a whole device; up to 90 % of a capacity is used.
TEST_F(Reasons, OfHasGpu) {
  ClusterFixture c(2);
  c.function("a", Millis(100), Millis(10)).inference().max_replicas = 2;
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
  c.device(c.instances("a").at(0)->device()).drained = true;
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
  c.view("a").spec.inference().min_replicas = 6;
  expect(c, "cluster-full",
         "6 instances always stay (minReplicas), and 4 run: of 1 device none has room for sm 100 "
         "% × quota 25 %: 1 is too full (nothing is free). a (never measured) holds 100 % of a "
         "device. devices_full=1");
  c.function("b", Millis(5), Millis(10));
  expect(c, "slo-impossible",
         "No slice meets the objective of 5.0 ms: a whole device answers one request in 10.0 ms. "
         "fastest_ms=10");
}

// As the first one, with a model that was never measured: it counts as twice as slow.
TEST_F(Reasons, OfWhatIsEstimated) {
  ClusterFixture c(2);
  c.function("a", Millis(100), Millis(10)).inference().max_replicas = 2;
  c.predictor.estimated = 1.0;
  c.rate("a", 2);
  expect(
      c, "new-device",
      "2.0/s expected and no instance to carry it. An instance, sm 25 % × quota 50 % on d0, "
      "batch 1, brings 10.0/s. Times are estimates, off by about 100 % (sluice profile measures); "
      "the slower side counts. forecast=2 capacity_after=10");
}

TEST_F(Reasons, WhatRestsOnNoTimesNamesNoEstimate) {
  ClusterFixture c(1);
  c.bundle = "fixed";
  c.function("a", Millis(100), Millis(10));
  c.view("a").spec.slice = slice(1000, 500);
  c.predictor.estimated = 1.0;
  for (const Action& a : c.tick()) EXPECT_EQ(a.reason.text.find("estimated"), std::string::npos);
  EXPECT_EQ(c.instances("a").size(), 1u);
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

// None is ready in place of what leaves at zero.
TEST_F(Reasons, OfAnInstanceThatAnotherBundleDoesNotNeed) {
  ClusterFixture c(2);
  c.bundle = "fixed";
  c.function("a", Millis(100), Millis(10)).slice = slice(500, 300);
  c.tick();
  c.bundle = "exclusive";
  c.view("a").spec.inference().min_replicas = 0;
  expect(
      c, "stop",
      "It holds another slice than it should. None is needed. No requests at once, and none came "
      "for 60 seconds; one instance takes 0.7. target=0.7");
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
  c.view("a").spec.inference().min_replicas = 8;
  expect(c, "cluster-full",
         "8 instances with a fixed slice always stay (minReplicas). 2 could not be started: of 2 "
         "devices none has room for sm 50 % × quota 30 %: 1 is too full (at most sm 50 % × quota "
         "10 % is free, on d1), 1 is cordoned. a holds 90 % of a device. replicas=8 "
         "devices_full=1 devices_drained=1 most_free=0.05");
}

// A model that does 20 requests a second with the least share in time, 20 %.
TEST_F(Reasons, OfDilu) {
  ClusterFixture c(1);
  c.bundle = "dilu-paper";
  c.function("a", Millis(100), Millis(10));
  const auto asked = [&](Nanos from, uint64_t arrivals) {
    auto history = std::make_shared<ArrivalHistory>();
    history->add(Seconds(0), from, arrivals);
    c.view("a").arrivals = history;
  };
  expect(c, "start", "At least one instance always stays. Started: sm 100 % × quota 20 % on d0.");
  asked(Seconds(30), 30 * 30);
  expect(c, "start",
         "30 of the last 30 seconds asked for more than the 20.0/s of 1 instance, 30.0/s on "
         "average. Started: sm 100 % × quota 20 % on d0. throughput=20 asked=30 above=30");
  asked(Seconds(60), 60 * 90);
  c.now.now += Seconds(40);
  expect(c, "cluster-full",
         "40 of the last 40 seconds asked for more than the 40.0/s of 2 instances, 90.0/s on "
         "average. 2 could not be started: of 1 device none has room for sm 100 % × quota 20 %: 1 "
         "is too full (at most sm 100 % × quota 40 % is free, on d0). a holds 60 % of a device. "
         "Limits add up to at most 150 % of a device. throughput=40 asked=90 above=40 "
         "devices_full=1 most_free=0.4");
  asked(Seconds(60), 0);
  c.now.now += Seconds(40);
  expect(c, "stop",
         "40 of the last 40 seconds asked for less than the 40.0/s of one instance less. "
         "throughput=60 below=40");
  c.now.instances.erase(c.now.instances.begin());
  expect(c, "start",
         "1 instance does 20.0/s; 0 of the last 40 seconds asked for more. Started: sm 100 % × "
         "quota 20 % on d0. throughput=20");
  c.function("b", Millis(100), Nanos(0)).slice = slice(1000, 300);
  expect(c, "start",
         "The model was never measured (sluice profile), so the load decides nothing. Started: sm "
         "100 % × quota 30 % on d0.");
}

TEST_F(Reasons, OfExclusive) {
  ClusterFixture c(3);
  c.bundle = "exclusive";
  c.function("a", Millis(100), Millis(10)).inference().container_concurrency = 10;
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

TEST_F(Reasons, OfFastGshare) {
  ClusterFixture c(2);
  c.bundle = "fast-gshare-paper";
  FunctionSpec& spec = c.function("a", Millis(100), Millis(10));
  spec.inference().max_replicas = 3;
  expect(
      c, "keep-alive",
      "minReplicas, or a request waits. An instance, sm 25 % × quota 40 % on d0, batch 1, brings "
      "16.0/s. capacity_after=16 per_resource=160");
  c.rate("a", 97);
  expect(c, "most-efficient",
         "97.0/s needed, 16.0/s there. Another instance, sm 50 % × quota 100 % on d0, batch 1, "
         "brings 80.0/s, the most for its sm × quota. rate=97 capacity=16 capacity_after=96 "
         "per_resource=160");
  c.rate("a", 110);
  expect(c, "least-sufficient",
         "110.0/s needed, 96.0/s there. Another instance, sm 25 % × quota 40 % on d0, batch 1, "
         "brings 16.0/s, the least that covers the rest. rate=110 capacity=96 capacity_after=112 "
         "per_resource=160");
  c.rate("a", 500);
  expect(c, "max-replicas",
         "500.0/s needed, 112.0/s there: maxReplicas allows 3. rate=500 capacity=112 gap=388");
  c.rate("a", 80);
  expect(c, "scale-in",
         "80.0/s needed, 112.0/s there. This one does the least for its sm × quota; without its "
         "16.0/s there are 80.0/s. rate=80 capacity=112 capacity_after=80");
  c.device("d0").drained = true;
  c.tick();
  expect(c, "drained-device",
         "Device d0 is cordoned; 80.0/s needed, and 1 instance elsewhere can do 80.0/s. rate=80 "
         "capacity_after=80");
}

TEST_F(Reasons, OfFastGshareForWhatDoesNotFit) {
  ClusterFixture c(1);
  c.bundle = "fast-gshare";
  c.function("a", Millis(100), Millis(10));
  c.rate("a", 200);
  expect(c, "cluster-full",
         "300.0/s needed (150 % of the rate), 160.0/s there; 140.0/s stay uncovered: of 1 device "
         "none has room for a slice that answers within 70.0 ms: 1 is too full (nothing is free). "
         "a holds 100 % of a device. rate=300 capacity=160 gap=140 devices_full=1");
  c.function("b", Millis(5), Millis(10));
  expect(c, "slo-impossible",
         "No slice meets the objective of 5.0 ms: a whole device answers one request in 10.0 ms. "
         "fastest_ms=10");
  c.function("c", Millis(100), Nanos(0));
  c.now.instances.clear();
  c.rate("a", 0);
  expect(c, "start",
         "The model was never measured (sluice profile): 1 instance, whatever the rate. Started: "
         "sm 100 % × quota 25 % on d0.");
}

TEST_F(Reasons, OfSmif) {
  ClusterFixture c(3);
  c.bundle = "smif";
  FunctionSpec& spec = c.function("a", Millis(100), Millis(40));
  spec.inference().min_replicas = 0;
  spec.slice = slice(1000, 1000);
  c.view("a").concurrency = 1;
  c.rate("a", 10);
  expect(c, "start", "10.0/s and no instance. Started: sm 100 % × quota 100 % on d0. rate=10");
  c.rate("a", 30);
  expect(c, "homogeneous-up",
         "30.0/s; 25.0/s at 80 % carry 20.0/s. Started: sm 100 % × quota 100 % on d1. rate=30 "
         "capacity=25 instances=1");
  c.now.now += Seconds(20);
  c.view("a").latency = {Millis(50), Millis(120), Millis(150)};
  expect(c, "homogeneous-up",
         "Requests take 120.0 ms, the objective is 100.0 ms. Started: sm 100 % × quota 100 % on "
         "d2. rate=30 capacity=50 instances=2");
  c.rate("a", 90);
  expect(c, "cluster-full",
         "90.0/s; 75.0/s at 80 % carry 60.0/s. Another instance could not be started: of 3 devices "
         "none has room for sm 100 % × quota 100 %: 3 are too full (nothing is free). a holds 300 "
         "% of a device. rate=90 capacity=75 instances=3 devices_full=3");
  c.now.now += Seconds(20);
  c.view("a").latency = {};
  c.rate("a", 30);
  expect(c, "homogeneous-down",
         "At most 30.0/s in 60 seconds; the others' 50.0/s at 80 % carry 40.0/s. rate=30 "
         "capacity=75 instances=3");
  c.rate("a", 0);
  c.view("a").concurrency = 0;
  c.now.now += Seconds(60);
  expect(c, "idle", "No request came for 60 seconds.");
}

TEST_F(Reasons, OfInfless) {
  ClusterFixture c(1);
  c.bundle = "infless";
  c.function("a", Millis(100), Millis(10)).inference().min_replicas = 0;
  c.view("a").concurrency = 1;
  c.rate("a", 30);
  expect(c, "start",
         "30.0/s and no instance. Started: sm 25 % × quota 100 % on d0, batch 1. rate=30 "
         "keep_alive=60");
  c.rate("a", 200);
  expect(c, "cluster-full",
         "200.0/s; 160.0/s at 80 % carry 128.0/s. Another instance could not be started: of 1 "
         "device none has room for sm 25 % × quota 100 %: 1 is too full (nothing is free). a holds "
         "100 % of a device. rate=200 capacity=160 keep_alive=60 devices_full=1");
  c.rate("a", 100);
  c.tick();
  c.rate("a", 90);
  expect(c, "stop",
         "At most 90.0/s in the keep-alive window of 60 seconds; the others' 120.0/s at 80 % carry "
         "96.0/s. rate=90 capacity=160 keep_alive=60");
  c.rate("a", 0);
  c.view("a").concurrency = 0;
  c.now.now += Seconds(60);
  expect(c, "idle",
         "No request came in the keep-alive window of 60 seconds. capacity=120 keep_alive=60");
}

TEST_F(Reasons, ATypeOfDevicesThatItWasNeverMeasuredOnIsNotTooFull) {
  ClusterFixture c(2);
  c.bundle = "infless";
  c.device("d1").model = "strange";
  c.predictor.slowness[type_of(c.device("d1"))] = 0;
  c.function("a", Millis(100), Millis(10)).inference().min_replicas = 0;
  c.view("a").concurrency = 1;
  c.rate("a", 30);
  c.tick();
  c.rate("a", 200);
  expect(
      c, "cluster-full",
      "200.0/s; 160.0/s at 80 % carry 128.0/s. Another instance could not be started: of 2 "
      "devices none has room for sm 25 % × quota 100 %: 1 is too full (nothing is free), 1 is of "
      "a type that it was never measured on. a holds 100 % of a device. rate=200 capacity=160 "
      "keep_alive=60 devices_full=1 devices_never_measured=1");
}

}  // namespace
}  // namespace sluice::policy
