// Whose work a GPU's SMs run when: timelines of clients with queues of work.
#include "sim/time_slices.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>

namespace sluice::sim {
namespace {

using policy::ClientId;
using testing::ElementsAre;
using testing::Pair;

constexpr Time kStart = Time(Seconds(3600));
constexpr Share kHalf{500};

// Clients' queues, and when each of them is empty.
class Bed {
 public:
  explicit Bed(const GpuPhysics& gpu = {}, Share contention = kNone) : slices(gpu, contention) {
    slices.advance(kStart);
  }
  void add(ClientId id, Share sm = kWhole, Share sm_begin = kNone) {
    slices.put(id, sm_begin, sm);
    queued[id] = Nanos(0);
  }
  // Queues work at a time; the times ascend.
  void queue(ClientId id, Nanos work, Nanos at = Nanos(0)) {
    pass(kStart + at);
    slices.queue(id, work);
    queued[id] += work;
    slices.settle();
  }
  // Lets time pass until all queues are empty. Returns when each of them was, in microseconds.
  const std::map<ClientId, int64_t>& run() {
    pass(kStart + Seconds(1));
    return ends;
  }

  TimeSlices slices;

 private:
  void pass(Time until) {
    for (Time next = slices.next(); next <= until; next = slices.next()) {
      slices.advance(next);
      for (const auto& [id, all] : queued)
        if (!ends.contains(id) && all > Nanos(0) && slices.done(id) == all)
          ends[id] = (next - kStart) / Micros(1);
      slices.settle();
    }
    slices.advance(until);
  }

  std::map<ClientId, Nanos> queued;
  std::map<ClientId, int64_t> ends;
};

TEST(TimeSlices, ClientsOfTheSameSmsTakeTurnsOfASlice) {
  Bed bed;
  bed.add(1);
  bed.add(2);
  bed.queue(1, Millis(4));
  bed.queue(2, Millis(4));
  // 2 ms of each, and 80 us to the next: from 0, 2.08, 4.16 and 6.24 ms.
  EXPECT_THAT(bed.run(), ElementsAre(Pair(1, 6160), Pair(2, 8240)));
}

TEST(TimeSlices, AClientWithNothingToRunKeepsItsSmsForALittleWhile) {
  Bed bed;
  bed.add(1);
  bed.add(2);
  bed.queue(1, Micros(500));
  bed.queue(2, Millis(1));
  // 100 us after the first has run, and 80 us to switch.
  EXPECT_THAT(bed.run(), ElementsAre(Pair(1, 500), Pair(2, 1680)));
}

TEST(TimeSlices, WorkThatComesInTimeKeepsTheSlice) {
  Bed bed;
  bed.add(1);
  bed.add(2);
  bed.queue(1, Micros(500));
  bed.queue(2, Millis(1));
  bed.queue(1, Micros(500), Micros(590));
  EXPECT_EQ(bed.run().at(2), 1090 + 100 + 80 + 1000);
}

TEST(TimeSlices, ASliceIsOverAtAMultipleOfItsLengthOnceAnotherClientWaits) {
  Bed bed;
  bed.add(1);
  bed.add(2);
  bed.queue(1, Millis(10));
  bed.queue(2, Millis(1), Millis(3));
  EXPECT_THAT(bed.run(), ElementsAre(Pair(1, 4000 + 80 + 1000 + 100 + 80 + 6000), Pair(2, 5080)));
}

TEST(TimeSlices, ClientsOfOtherSmsRunAtTheSameTimeAndSlowEachOther) {
  Bed bed({}, {200});
  bed.add(1, kHalf);
  bed.add(2, kHalf, kHalf);
  bed.queue(1, Millis(40));
  bed.queue(2, Millis(80));
  // A tenth longer beside half the device's SMs. The second is alone after 44 ms.
  EXPECT_THAT(bed.run(), ElementsAre(Pair(1, 44'000), Pair(2, 84'000)));
}

TEST(TimeSlices, AClientOfAllSmsWaitsForBothHalvesAndThenHasThem) {
  Bed bed;
  bed.add(1, kHalf);
  bed.add(2, kHalf, kHalf);
  bed.add(3);
  bed.queue(1, Millis(4));
  bed.queue(2, Millis(4), Millis(1));
  bed.queue(3, Millis(1), Millis(1));
  // The first leaves at 2 ms and does not come back before the third, for which the second leaves
  // at 3 ms.
  EXPECT_EQ(bed.run().at(3), 3000 + 80 + 1000);
}

TEST(TimeSlices, WorkOfAClientThatLeavesIsGone) {
  Bed bed;
  bed.add(1);
  bed.add(2);
  bed.queue(1, Millis(100));
  bed.queue(2, Millis(1), Millis(1));
  bed.slices.remove(1);
  bed.slices.settle();
  EXPECT_EQ(bed.slices.when(2, Millis(1)), kStart + Millis(2));
}

}  // namespace
}  // namespace sluice::sim
