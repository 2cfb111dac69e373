#include "model/arrival_history.h"

#include <gtest/gtest.h>

#include <numeric>

#include "base/random.h"

namespace sluice {
namespace {

using Counts = std::vector<uint32_t>;
constexpr Nanos kBegin = std::chrono::hours(1000);
constexpr Nanos kMinute = Seconds(60);
constexpr Nanos kDay = std::chrono::hours(24);

// A history whose owner counts at the end of every interval.
struct Owner {
  ArrivalHistory history;
  Nanos now = kBegin;
  void count(Nanos after, uint64_t arrivals) {
    history.add(now, now + after, arrivals);
    now += after;
  }
};

uint64_t sum(const Counts& counts) {
  return std::accumulate(counts.begin(), counts.end(), uint64_t{0});
}

TEST(ArrivalHistory, ASecondHasWhatWasCountedInIt) {
  Owner o;
  for (const uint64_t arrivals : {1, 2, 3, 4, 0, 0, 0, 0, 9, 0, 0, 0, 5})
    o.count(Millis(250), arrivals);
  EXPECT_EQ(o.history.per_second(10), (Counts{10, 0, 9})) << "the second in progress is left out";
  EXPECT_EQ(o.history.per_second(2), (Counts{0, 9}));
  EXPECT_EQ(o.history.per_second(0), Counts{});
  EXPECT_EQ(ArrivalHistory().per_second(10), Counts{});
  EXPECT_EQ(ArrivalHistory().per_minute(10), Counts{});
}

TEST(ArrivalHistory, AnIntervalIsSpreadEvenlyOverItsSeconds) {
  Owner o;
  o.count(Seconds(1), 50);
  o.count(Seconds(4), 200);    // the gateway did not answer
  o.count(Millis(1250), 125);  // a tick that came late
  o.count(Millis(750), 75);
  EXPECT_EQ(o.history.per_second(10), (Counts{50, 50, 50, 50, 50, 100, 100}));
}

TEST(ArrivalHistory, TenMinutesAreKeptAndWhatIsOlderIsForgotten) {
  Owner o;
  o.count(Seconds(1), 7);
  for (int s = 1; s <= ArrivalHistory::kSeconds - 1; ++s) o.count(Seconds(1), 1);
  Counts all = o.history.per_second(10'000);
  ASSERT_EQ(all.size(), 600u);
  EXPECT_EQ(all.front(), 7u);
  o.count(Seconds(1), 2);
  all = o.history.per_second(10'000);
  ASSERT_EQ(all.size(), 600u);
  EXPECT_EQ(all.front(), 1u);
  EXPECT_EQ(all.back(), 2u);
  o.count(std::chrono::hours(1), 0);
  EXPECT_EQ(sum(o.history.per_second(600)), 0u);
}

TEST(ArrivalHistory, OfALongIntervalTheLastTenMinutesCountAtItsMeanRate) {
  Owner o;
  o.count(kMinute, 0);
  o.count(std::chrono::hours(10), 36'000);
  EXPECT_EQ(o.history.per_second(600), Counts(600, 1));
  EXPECT_EQ(sum(o.history.per_minute(600)), 600u);
}

TEST(ArrivalHistory, AClockThatIsSetBackCountsInTheNewestSecond) {
  Owner o;
  o.count(Millis(2500), 0);
  o.now -= Seconds(2);
  o.count(Millis(250), 8);
  EXPECT_EQ(o.history.per_second(2), (Counts{0, 0}));
  o.now = kBegin + Seconds(3);
  o.count(Millis(250), 0);
  EXPECT_EQ(o.history.per_second(2), (Counts{0, 8}));
}

TEST(ArrivalHistory, AClockThatIsSetBackFarForgetsSecondsAndLaterHours) {
  Owner o;
  o.count(kMinute, 6);
  o.now += 10 * kDay;  // it was set forward by mistake
  o.count(kMinute, 60);
  o.now = kBegin + 2 * kMinute;
  o.count(kMinute, 120);
  EXPECT_EQ(o.history.per_second(600), Counts(60, 2));
  EXPECT_EQ(o.history.per_minute(600), (Counts{6, 0, 120}));
}

TEST(ArrivalHistory, FourteenDaysOfMinutesAreKept) {
  Owner o;
  for (int hour = 0; hour < 15 * 24; ++hour) {
    o.count(kMinute, 100 + static_cast<uint64_t>(hour));
    o.count(59 * kMinute, 0);
  }
  const Counts minutes = o.history.per_minute(1'000'000);
  ASSERT_EQ(minutes.size(), static_cast<size_t>(ArrivalHistory::kMinutes));
  EXPECT_EQ(minutes.front(), 124u);
  EXPECT_EQ(minutes[60], 125u);
  EXPECT_EQ(minutes[minutes.size() - 60], 459u);
  EXPECT_EQ(idle_gaps(minutes), std::vector<int>(335, 59));
  EXPECT_EQ(o.history.per_minute(60).front(), 459u);
  EXPECT_LE(o.history.hours().size(), static_cast<size_t>(ArrivalHistory::kHours) + 1);
}

TEST(ArrivalHistory, AnHourWithoutArrivalsTakesNoMemory) {
  Owner o;
  o.count(10 * kDay, 0);
  o.count(Seconds(1), 1);
  o.count(2 * kDay, 0);
  EXPECT_EQ(o.history.hours().size(), 1u);
  EXPECT_EQ(o.history.per_minute(2 * 1440).size(), 2u * 1440);
}

TEST(ArrivalHistory, AHistoryGoesOnWhereTheOneBeforeStood) {
  Owner before;
  for (int minute = 0; minute < 90; ++minute) before.count(kMinute, 3);
  Owner after;
  for (const auto& [hour, arrivals] : before.history.hours()) after.history.restore(hour, arrivals);
  after.now = before.now;
  after.count(10 * kMinute, 0);
  after.count(kMinute, 5);
  const Counts minutes = after.history.per_minute(1000);
  ASSERT_EQ(minutes.size(), 101u);
  EXPECT_EQ(minutes.front(), 3u);
  EXPECT_EQ(minutes[89], 3u);
  EXPECT_EQ(minutes[90], 0u);
  EXPECT_EQ(minutes[100], 5u);
}

TEST(ArrivalHistory, NoArrivalIsLostOrCountedTwice) {
  const uint64_t seed = 7;
  Random random(seed);
  Owner o;
  uint64_t all = 0;
  for (int n = 0; n < 1000; ++n) {
    const auto arrivals = random.below(1000);
    all += arrivals;
    o.count(Millis(1) * static_cast<int64_t>(1 + random.below(700)), arrivals);
  }
  o.count(kMinute, 0);
  EXPECT_EQ(sum(o.history.per_second(600)), all) << "seed " << seed;
  EXPECT_EQ(sum(o.history.per_minute(20)), all) << "seed " << seed;
}

TEST(IdleGaps, AreTheRunsOfZerosBetweenArrivals) {
  const struct {
    Counts counts;
    std::vector<int> gaps;
  } table[] = {{{}, {}},
               {{0, 0}, {}},
               {{1, 2}, {}},
               {{0, 1, 0, 0, 3, 0}, {2}},
               {{1, 0, 1, 1, 0, 0, 0, 1}, {1, 3}}};
  for (const auto& row : table) EXPECT_EQ(idle_gaps(row.counts), row.gaps);
}

}  // namespace
}  // namespace sluice
