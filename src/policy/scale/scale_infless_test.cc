// `infless`: its configurations, and its windows by idle gaps.
#include "policy/scale/scale_infless.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "policy/scale/idle_windows.h"
#include "tests/support/cluster.h"

namespace sluice::policy {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;
using testing::SizeIs;

// A history in which `gaps` idle steps pass between two arrivals, one after the other.
ArrivalHistory history_of(const std::vector<int>& gaps, Nanos step = Seconds(1)) {
  ArrivalHistory history;
  Nanos at = Seconds(3600);
  const auto pass = [&](uint64_t arrivals) {
    history.add(at, at + step, arrivals);
    at += step;
  };
  pass(1);
  for (const int gap : gaps) {
    for (int i = 0; i < gap; ++i) pass(0);
    pass(1);
  }
  return history;
}

TEST(IdleWindows, WeighTheLongAndTheShortTerm) {
  std::vector<int> gaps(10, 20);  // 210 s long ago
  gaps.insert(gaps.end(), 40, 4);
  const auto windows = idle_windows(history_of(gaps), {});
  ASSERT_TRUE(windows);
  EXPECT_EQ(windows->pre_warm, Seconds(4));
  EXPECT_EQ(windows->keep_alive, Seconds(12));  // of 90 % and more: 20 in the long term, else 4
}

TEST(IdleWindows, AreMinutesForASporadicFunction) {
  EXPECT_EQ(idle_windows(history_of({3, 3, 3, 3}), {}), std::nullopt) << "too few";
  const auto windows = idle_windows(history_of({15, 15, 15, 15, 15, 15}, Seconds(60)), {});
  EXPECT_EQ(windows, (IdleWindows{Seconds(900), Seconds(900)}));
}

class Infless : public testing::Test {
 public:
  Infless() { c.bundle = "infless"; }
  void run(int ticks) {
    for (int i = 0; i < ticks; ++i) c.tick(Seconds(1));
  }
  void load(double rate) { c.rate("a", rate), c.view("a").concurrency = rate > 0 ? 1 : 0; }
  ClusterFixture c{4};
};

// t = 10 ms ÷ speed: a quarter of a device takes 25 ms, does 40/s, and costs least per inference.
TEST_F(Infless, TheMostEfficientShareThatIsInTimeIsTaken) {
  c.function("a", Millis(100), Millis(10));
  load(30);
  run(1);
  ASSERT_THAT(c.instances("a"), SizeIs(1));
  EXPECT_EQ(c.instances("a")[0]->slice(), slice(250, 1000));
  load(100);
  run(1);
  EXPECT_THAT(c.instances("a"), SizeIs(4));
  for (const Instance* i : c.instances("a")) EXPECT_EQ(i->device(), "d0") << "the fullest";
}

TEST_F(Infless, ABatchOfSeveralHasHalfOfTheObjectiveAndIsFilledInTheRest) {
  c.function("a", Millis(100), Millis(10), 8);
  load(10);
  run(1);
  EXPECT_EQ(c.instances("a").at(0)->batch, 1) << "10/s do not fill a larger batch in time";
  // On a quarter: t(2) = 37.5 ms, 2 ÷ 62.5 ms = 32/s; on a half t(4) = 31.25 ms, 4 ÷ 68.75 ms.
  load(200);
  run(1);
  int most = 0;
  for (const Instance* i : c.instances("a")) most = std::max(most, i->batch);
  EXPECT_GE(most, 2);
  for (const Instance* i : c.instances("a")) {
    const double t = seconds(c.predictor
                                 .predict(model_on(i->function, 1, c.device(i->device())),
                                          {i->batch, i->slice().sm, kWhole})
                                 ->median);
    EXPECT_LE(t, i->batch > 1 ? 0.05 : 0.1);
  }
}

TEST_F(Infless, AnInstanceStaysForAKeepAliveWindowAfterItWasNeeded) {
  c.function("a", Millis(100), Millis(10)).inference().scale_to_zero_after = Seconds(30);
  ArrivalHistory history;
  Nanos at = Seconds(1000);
  const auto pass = [&](int secs, int rate) {
    for (; secs > 0; --secs, at += Seconds(1)) {
      history.add(at, at + Seconds(1), static_cast<uint64_t>(rate));
      c.view("a").arrivals = std::make_shared<ArrivalHistory>(history);
      load(rate);
      run(1);
    }
  };
  pass(5, 90);
  EXPECT_THAT(c.instances("a"), SizeIs(3));
  pass(29, 20);
  EXPECT_THAT(c.instances("a"), SizeIs(3));
  pass(3, 20);
  EXPECT_THAT(c.instances("a"), SizeIs(1));
}

// Requests come every 40 s: the instance leaves after each, and is back 5 s before the next.
TEST_F(Infless, AnIdleFunctionIsUnloadedAndPreWarmed) {
  c.function("a", Millis(100), Millis(10)).inference().min_replicas = 0;
  c.view("a").start_cost = Seconds(5);
  c.view("a").arrivals = std::make_shared<ArrivalHistory>(history_of(std::vector<int>(10, 40)));
  load(1);
  run(1);
  EXPECT_THAT(c.instances("a"), SizeIs(1));
  load(0);
  run(1);
  EXPECT_THAT(c.rules("a"), ElementsAre("idle"));
  run(33);
  EXPECT_THAT(c.instances("a"), IsEmpty());
  run(1);
  EXPECT_THAT(c.rules("a"), ElementsAre("pre-warm"));
  run(4);
  EXPECT_THAT(c.instances("a"), SizeIs(1));
  run(2);
  EXPECT_THAT(c.instances("a"), IsEmpty()) << "the keep-alive window is over";
}

TEST_F(Infless, AShortIdleTimeIsNotWorthAnUnloading) {
  c.function("a", Millis(100), Millis(10)).inference().min_replicas = 0;
  c.view("a").start_cost = Seconds(5);
  c.view("a").arrivals = std::make_shared<ArrivalHistory>(history_of(std::vector<int>(10, 8)));
  load(1);
  run(1);
  load(0);
  run(9);
  EXPECT_THAT(c.instances("a"), SizeIs(1));
  run(1);
  EXPECT_THAT(c.instances("a"), IsEmpty()) << "two starts, which is longer than 8 s";
}

TEST_F(Infless, AtMaxReplicasTheRestIsReported) {
  c.function("a", Millis(100), Millis(10)).inference().max_replicas = 2;
  load(100);
  run(1);
  EXPECT_THAT(c.instances("a"), SizeIs(2));
  EXPECT_THAT(c.rules("a"), ElementsAre("start", "start", "max-replicas"));
}

TEST_F(Infless, ACordonedDeviceIsLeftOnceTheOthersCarryTheLoad) {
  c.function("a", Millis(100), Millis(10));
  load(100);
  run(2);
  ASSERT_THAT(c.instances("a"), SizeIs(4));
  for (Device& d : c.now.devices) d.drained = d.id != "d1";
  c.instance("other", "x", "d1", slice(750, 1000));
  run(5);
  EXPECT_THAT(c.instances("a"), SizeIs(5)) << "one elsewhere is not enough";
  load(20);
  run(2);
  EXPECT_THAT(c.instances("a"), SizeIs(1));
}

}  // namespace
}  // namespace sluice::policy
