// Stretches of busy time, late and in any order: what overlaps counts once.
#include "hook/busy_time.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <random>
#include <vector>

namespace sluice::hook {
namespace {

struct Step {
  uint64_t begin, end;
  uint64_t ns;  // somewhere between; 0: all of it
  uint64_t new_ns;
};

uint64_t take(BusyTime& time, const Step& s) {
  return s.ns == 0 ? time.cover(s.begin, s.end) : time.place(s.begin, s.end, s.ns);
}

TEST(BusyTimeTest, CountsEachMomentOnce) {
  const std::vector<std::vector<Step>> tables = {
      {{0, 10, 0, 10}, {20, 30, 0, 10}, {5, 25, 0, 10}, {0, 30, 0, 0}},      // the gap is filled
      {{10, 20, 0, 10}, {20, 30, 0, 10}, {0, 40, 0, 20}},                    // they touch
      {{0, 100, 0, 100}, {10, 90, 0, 0}, {50, 150, 0, 50}},                  // within, and beyond
      {{5, 5, 0, 0}, {7, 3, 0, 0}},                                          // none at all
      {{0, 100, 30, 30}, {0, 30, 0, 0}, {30, 100, 0, 70}},                   // the earliest first
      {{40, 60, 0, 20}, {0, 100, 50, 50}, {60, 100, 0, 30}, {0, 40, 0, 0}},  // around what is known
      {{0, 100, 0, 100}, {0, 100, 50, 0}},                                   // no room
      {{0, 10, 50, 10}},  // more than there is room
  };
  for (size_t t = 0; t < tables.size(); ++t) {
    BusyTime time{};
    for (size_t i = 0; i < tables[t].size(); ++i)
      EXPECT_EQ(take(time, tables[t][i]), tables[t][i].new_ns) << "table " << t << ", step " << i;
  }
}

TEST(BusyTimeTest, RandomSchedulesAgreeWithABitmap) {
  constexpr unsigned kSeed = 20261121;
  constexpr uint64_t kSpan = 2000;
  std::mt19937 random(kSeed);
  for (int schedule = 0; schedule < 200; ++schedule) {
    SCOPED_TRACE("seed " + std::to_string(kSeed) + ", schedule " + std::to_string(schedule));
    BusyTime time{};
    std::vector<bool> known(kSpan);
    uint64_t sum = 0;
    for (int i = 0; i < 50; ++i) {  // fewer than are kept
      const uint64_t a = random() % kSpan, b = std::min(kSpan, a + random() % 100);
      const bool placed = random() % 3 == 0;
      const uint64_t ns = placed ? 1 + random() % 60 : 0;
      const uint64_t got = take(time, {a, b, ns, 0});
      uint64_t expected = 0;
      for (uint64_t at = a; at < b && (!placed || expected < ns); ++at)
        if (!known[at]) {
          known[at] = true;
          ++expected;
        }
      ASSERT_EQ(got, expected);
      sum += got;
    }
    EXPECT_EQ(sum, static_cast<uint64_t>(std::count(known.begin(), known.end(), true)));
  }
}

// What comes too late for the memory counts in full: never too little.
TEST(BusyTimeTest, ForgetsTheOldest) {
  BusyTime time{};
  const uint64_t many = BusyTime::kKept + 10;
  for (uint64_t i = 0; i < many; ++i) EXPECT_EQ(time.cover(10 * i, 10 * i + 5), 5u);
  EXPECT_EQ(time.cover(0, 5), 5u);
  EXPECT_EQ(time.cover(10 * (many - 1), 10 * (many - 1) + 5), 0u);
}

}  // namespace
}  // namespace sluice::hook
