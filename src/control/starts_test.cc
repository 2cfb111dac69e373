#include "control/starts.h"

#include <gtest/gtest.h>

namespace sluice::control {
namespace {

constexpr Time kStart{std::chrono::hours(1)};
const FunctionName kF{.name = "f"};

ObservedInstance seen(const InstanceId& id) {
  return {.instance = {.id = id, .function = kF, .revision = 1}};
}

TEST(Starts, AnOrderThatDoesNotAppearInTimeIsLostOnce) {
  Starts starts({.patience = Seconds(10)});
  starts.ordered({.id = "a"}, kStart);
  starts.ordered({.id = "b"}, kStart + Seconds(1));
  EXPECT_TRUE(starts.reconcile({}, {}, kStart + Seconds(9)).empty());
  const auto lost = starts.reconcile({seen("b")}, {}, kStart + Seconds(10));
  ASSERT_EQ(lost.size(), 1u);
  EXPECT_EQ(lost[0].id, "a");
  EXPECT_FALSE(starts.pending());
  EXPECT_TRUE(starts.reconcile({seen("b")}, {}, kStart + Seconds(30)).empty());
}

TEST(Starts, AnOrderOnADeviceThatDoesNotAnswerIsNotGivenUp) {
  Starts starts({.patience = Seconds(10)});
  Instance a{.id = "a"};
  a.parts[0].device = "cpu0";
  starts.ordered(a, kStart);
  std::vector<Device> devices = {{.id = "cpu0", .reachable = false}};
  EXPECT_TRUE(starts.reconcile({}, devices, kStart + Seconds(60)).empty());
  EXPECT_TRUE(starts.pending());
  devices[0].reachable = true;
  EXPECT_EQ(starts.reconcile({}, devices, kStart + Seconds(61)).size(), 1u);
}

TEST(Starts, WhenAStartWasDecidedIsKnownWhileItsInstanceIsThere) {
  Starts starts({});
  starts.ordered({.id = "b"}, kStart);
  (void)starts.reconcile({seen("a"), seen("b"), seen("c")}, {}, kStart + Seconds(1));
  EXPECT_EQ(starts.decided_at("b"), kStart);
  EXPECT_EQ(starts.decided_at("a"), Time{}) << "an earlier loop's";
  (void)starts.reconcile({seen("a"), seen("c")}, {}, kStart + Seconds(2));
  EXPECT_EQ(starts.decided_at("b"), Time{});
}

TEST(Starts, ARevisionThatFailsIsTriedAfterAnExponentialBackoffWithABound) {
  Starts starts({.retry_most = Seconds(60)});
  Time now = kStart;
  for (const int wait : {2, 4, 8, 16, 32, 60, 60}) {
    EXPECT_EQ(starts.backoff(kF, 1, now), nullptr);
    (void)starts.failed(kF, 1, false, "no such method", now);
    EXPECT_NE(starts.backoff(kF, 1, now + Seconds(wait) - Nanos(1)), nullptr);
    now += Seconds(wait);
  }
  EXPECT_EQ(starts.trouble(kF, 1)->failures, 7);
  EXPECT_EQ(starts.backoff(kF, 2, kStart), nullptr) << "another revision";
  starts.forget(kF, 1);
  EXPECT_EQ(starts.trouble(kF, 1), nullptr);
}

TEST(Starts, ARevisionThatIsGivenUpIsNotTriedAgainUntilItIsForgotten) {
  Starts starts({});
  for (int k = 0; k < 3; ++k)
    (void)starts.failed(kF, 1, false, "exit code 3", kStart + k * Seconds(100));
  EXPECT_FALSE(starts.trouble(kF, 1)->given_up);
  EXPECT_EQ(said_of_given_up(1, starts.give_up(kF, 1)),
            "Revision 1 could not start in 3 tries and is not started again. Apply its file again "
            "for new tries. The last one: exit code 3");
  EXPECT_NE(starts.backoff(kF, 1, kStart + Seconds(1'000'000)), nullptr);
  starts.forget(kF, 1);
  EXPECT_EQ(starts.backoff(kF, 1, kStart), nullptr);
}

TEST(Starts, InstancesThatFailTogetherAreOneTry) {
  Starts starts({});
  for (int k = 0; k < 3; ++k) (void)starts.failed(kF, 1, false, "no database", kStart);
  EXPECT_EQ(starts.trouble(kF, 1)->failures, 1);
  EXPECT_EQ(starts.failed(kF, 1, false, "no database", kStart + Seconds(2)).failures, 2);
}

TEST(Starts, ANodesFaultIsATryAndNoFailureOfTheRevision) {
  Starts starts({});
  EXPECT_EQ(starts.failed(kF, 1, true, "its daemon died", kStart).failures, 0);
  EXPECT_EQ(starts.trouble(kF, 1)->tries, 1);
  EXPECT_NE(starts.backoff(kF, 1, kStart), nullptr);
}

}  // namespace
}  // namespace sluice::control
