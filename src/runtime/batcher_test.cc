#include "runtime/batcher.h"

#include <gtest/gtest.h>

#include <map>
#include <numeric>

#include "base/random.h"

namespace sluice::runtime {
namespace {

constexpr Time kStart(Seconds(1));
constexpr Time at(int64_t ms) {
  return kStart + Millis(ms);
}
using Tickets = std::vector<uint64_t>;

// Takes times in milliseconds since the start.
struct Bench {
  explicit Bench(int max_size, int64_t max_delay_ms)
      : batcher(Batching{max_size, Millis(max_delay_ms)}) {}

  void arrive(int64_t ms, uint64_t ticket, const std::string& key = "k", int inferences = 1,
              std::optional<int> more = std::nullopt) {
    batcher.add({ticket, inferences, key, more, at(ms)});
  }
  Tickets starts(int64_t ms) { return batcher.next(at(ms)).batch; }
  Time wakes(int64_t ms) { return batcher.next(at(ms)).wake; }

  Batcher batcher;
};

TEST(Batcher, WithoutDelayWhateverWaitsRunsTogether) {
  Bench b(4, 0);
  b.arrive(0, 1);
  EXPECT_EQ(b.starts(0), Tickets{1});
  for (uint64_t t = 2; t < 8; ++t) b.arrive(1, t);
  EXPECT_EQ(b.starts(2), (Tickets{2, 3, 4, 5}));
  EXPECT_EQ(b.starts(2), (Tickets{6, 7}));
  EXPECT_EQ(b.starts(2), Tickets{});
  EXPECT_EQ(b.wakes(2), Time::max());
}

TEST(Batcher, TheOldestWaitsAtMostTheDelay) {
  Bench b(4, 10);
  b.arrive(0, 1);
  b.arrive(7, 2);
  EXPECT_EQ(b.wakes(7), at(10));
  EXPECT_EQ(b.starts(9), Tickets{});
  EXPECT_EQ(b.starts(10), (Tickets{1, 2}));
}

TEST(Batcher, AFullBatchStartsAtOnce) {
  Bench b(3, 1000);
  b.arrive(0, 1);
  b.arrive(0, 2, "k", 2);
  EXPECT_EQ(b.starts(0), (Tickets{1, 2}));
}

TEST(Batcher, WhatDoesNotFitMeansFullAndKeepsItsTurn) {
  Bench b(4, 1000);
  b.arrive(0, 1, "k", 3);
  b.arrive(0, 2, "k", 2);
  b.arrive(0, 3, "k", 1);
  EXPECT_EQ(b.starts(0), Tickets{1});  // 3 does not overtake 2
  EXPECT_EQ(b.starts(0), Tickets{});
  EXPECT_EQ(b.starts(1000), (Tickets{2, 3}));
}

TEST(Batcher, KeysNeverMix) {
  Bench b(4, 10);
  b.arrive(0, 1, "short");
  b.arrive(1, 2, "long");
  b.arrive(2, 3, "short");
  EXPECT_EQ(b.starts(10), (Tickets{1, 3}));
  EXPECT_EQ(b.starts(10), Tickets{});
  EXPECT_EQ(b.starts(11), Tickets{2});
}

TEST(Batcher, AFullBatchDoesNotWaitForAnOlderOneOfAnotherKey) {
  Bench b(2, 100);
  b.arrive(0, 1, "old");
  b.arrive(1, 2, "full");
  b.arrive(1, 3, "full");
  EXPECT_EQ(b.starts(1), (Tickets{2, 3}));
  EXPECT_EQ(b.wakes(1), at(100));
}

TEST(Batcher, TheHintReplacesTheDelay) {
  Bench b(8, 50);
  b.arrive(0, 1, "k", 1, 2);
  EXPECT_EQ(b.starts(0), Tickets{});
  b.arrive(0, 2, "k", 1, 1);
  EXPECT_EQ(b.starts(0), Tickets{});
  b.arrive(1, 3, "k", 1, 0);
  EXPECT_EQ(b.starts(1), (Tickets{1, 2, 3}));
}

TEST(Batcher, TheLastOfThoseAnnouncedNeedNotSayThatItIs) {
  Bench b(8, 50);
  b.arrive(0, 1, "k", 1, 2);
  b.arrive(0, 2);
  EXPECT_EQ(b.starts(0), Tickets{});
  b.arrive(1, 3);
  EXPECT_EQ(b.starts(1), (Tickets{1, 2, 3}));
}

TEST(Batcher, AnnouncedRequestsThatDoNotComeAreNotWaitedForLong) {
  Bench b(8, 0);
  b.arrive(0, 1, "k", 1, 5);
  EXPECT_EQ(b.starts(1), Tickets{});
  EXPECT_EQ(b.starts(2), Tickets{1});
}

TEST(Batcher, UnderRandomArrivalsNothingIsLostLateOverfullOrMixed) {
  for (uint64_t seed = 1; seed <= 50; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    Random random(seed);
    const int max_size = static_cast<int>(random.between(1, 8));
    const int64_t delay = random.between(0, 20);
    Bench b(max_size, delay);
    std::map<uint64_t, BatchItem> waiting;
    uint64_t ticket = 0;
    for (int64_t ms = 0; ms < 500 || !waiting.empty(); ++ms) {
      ASSERT_LT(ms, 1000);
      while (ms < 500 && random.chance(0.4)) {
        BatchItem item{++ticket, static_cast<int>(random.between(1, max_size)),
                       std::string(1, static_cast<char>('a' + random.below(3))), std::nullopt,
                       at(ms)};
        if (random.chance(0.3)) item.more = static_cast<int>(random.between(0, 2));
        waiting[ticket] = item;
        b.batcher.add(item);
      }
      for (Tickets batch = b.starts(ms); !batch.empty(); batch = b.starts(ms)) {
        int inferences = 0;
        for (const uint64_t t : batch) {
          ASSERT_TRUE(waiting.contains(t)) << "started twice";
          EXPECT_EQ(waiting[t].key, waiting[batch[0]].key);
          inferences += waiting[t].inferences;
        }
        EXPECT_LE(inferences, max_size);
        for (const uint64_t t : batch) waiting.erase(t);
      }
      for (const auto& [t, item] : waiting)
        EXPECT_LT(at(ms), item.arrived + std::max(Millis(delay), Millis(2))) << "ticket " << t;
    }
  }
}

}  // namespace
}  // namespace sluice::runtime
