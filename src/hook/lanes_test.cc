// The account of work in flight.
#include "hook/lanes.h"

#include <gtest/gtest.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <memory>
#include <random>
#include <string>
#include <thread>

namespace sluice::hook {
namespace {

const CUstream kStream = reinterpret_cast<CUstream>(0x1000);
const CUstream kOther = reinterpret_cast<CUstream>(0x2000);
const CUevent kEvent = reinterpret_cast<CUevent>(0x3000);

uint32_t this_thread() {
  return static_cast<uint32_t>(syscall(SYS_gettid));
}
uint32_t ended_thread() {
  uint32_t id = 0;
  std::thread([&] { id = this_thread(); }).join();
  return id;
}

struct LanesTest : testing::Test {
  const std::unique_ptr<Lanes> lanes{new Lanes()};
  const uint32_t me = this_thread();
};

TEST_F(LanesTest, AThreadHasALanePerStream) {
  Lane* lane = lanes->claim(me, kStream);
  ASSERT_NE(lane, nullptr);
  lane->submit(10);
  EXPECT_EQ(lanes->claim(me, kStream), lane);
  EXPECT_EQ(lanes->find(me, kStream), lane);
  EXPECT_EQ(lanes->find(me, kOther), nullptr);
  EXPECT_NE(lanes->claim(me, kOther), lane);
}

TEST_F(LanesTest, InFlightIsWhatIsNotFinishedAndWhatThereIsLeaveFor) {
  Lane* one = lanes->claim(me, kStream);
  Lane* two = lanes->claim(me, kOther);
  one->submit(100);
  two->submit(50);
  two->allow(25);
  EXPECT_EQ(lanes->in_flight_ns(), 175u);
  two->submit(20);  // some of its leave
  EXPECT_EQ(lanes->in_flight_ns(), 175u);
  two->submit(20);  // and beyond
  EXPECT_EQ(lanes->in_flight_ns(), 190u);
  one->finished = 100;
  EXPECT_EQ(lanes->in_flight_ns(), 90u);
  one->finished = 120;  // a unit that was counted out and then not launched
  EXPECT_EQ(one->in_flight_ns(), 0u);
}

TEST_F(LanesTest, AUnitThatWasNotLaunchedIsTakenBackFinishedOrNot) {
  Lane* lane = lanes->claim(me, kStream);
  lane->submit(100);
  lane->submit(40);
  lane->take_back(40);
  EXPECT_EQ(lane->unfinished_ns(), 100u);
  lane->submit(40);
  lane->finished = lane->marked = lane->done();  // somebody settled it meanwhile
  lane->take_back(40);
  EXPECT_EQ(lane->unfinished_ns(), 0u);
  lane->submit(30);
  EXPECT_EQ(lane->unfinished_ns(), 30u);
  EXPECT_EQ(lane->open_ns(), 30u);
}

TEST_F(LanesTest, OnlyOnesThatNobodyUsesAreTaken) {
  Lane* mine = lanes->claim(me, kStream);
  mine->submit(1);
  Lane* ended = lanes->claim(ended_thread(), kStream);
  ASSERT_NE(ended, mine);
  for (unsigned i = 2; i < Lanes::kSize; ++i) {
    Lane* lane = lanes->claim(me, reinterpret_cast<CUstream>(0x10000ul + i));
    ASSERT_NE(lane, nullptr) << i;
    ASSERT_NE(lane, mine);
    lane->submit(1);
  }
  unsigned found = 0;  // the one of the thread that has ended may have been taken before
  while (Lane* lane = lanes->claim(me, reinterpret_cast<CUstream>(0x90000ul + found))) {
    ASSERT_NE(lane, mine);
    lane->submit(1);
    ASSERT_LE(++found, 2u);
  }
  mine->finished = 1;
  EXPECT_EQ(lanes->claim(me, kOther), mine);
}

TEST_F(LanesTest, MarksAreReachedInTheirOrder) {
  Lane* lane = lanes->claim(me, kStream);
  for (uint64_t round = 1; round <= 3 * Lane::kMarks; ++round) {
    lane->submit(10);
    EXPECT_EQ(lane->open_ns(), 10u);
    lane->push({kEvent, lane->done(), 0, {.unit = round}});
    EXPECT_EQ(lane->open_ns(), 0u);
    EXPECT_EQ(lane->last().timing.unit, round);
    if (lane->marks < Lane::kMarks) continue;
    EXPECT_EQ(lane->first().timing.unit, round - Lane::kMarks + 1);
    lane->pop();
    EXPECT_EQ(lane->finished, 10 * (round - Lane::kMarks + 1));
  }
}

Mark by_the_clock(uint64_t position, uint64_t now) {
  Mark mark{};
  mark.position = position;
  mark.recorded_ns = now;
  return mark;
}

// Whatever the pace: a stream that has work does it, and units take what is expected of them.
TEST_F(LanesTest, TheClockTakesNothingForFinishedThatMayStillRun) {
  for (uint64_t seed = 1; seed <= 200; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    std::mt19937_64 random(seed);
    Lane lane{};
    uint64_t now = 0, idle_at = 0;  // by then the device has done what was submitted
    for (int step = 0; step < 500; ++step) {
      now += random() % 200;
      for (uint64_t burst = random() % 4; burst > 0; --burst) {
        const uint64_t cost = 1 + random() % 100;
        lane.submit(cost);
        idle_at = std::max(idle_at, now) + cost;
      }
      if (random() % 2 == 0 && lane.marks < Lane::kMarks && lane.open_ns() != 0)
        lane.push(by_the_clock(lane.done(), now));
      while (lane.marks != 0 && lane.due_ns() <= now) {
        lane.reached_ns = lane.due_ns();
        lane.pop();
      }
      const uint64_t left = idle_at > now ? idle_at - now : 0;
      ASSERT_LE(left, lane.unfinished_ns()) << "step " << step;
    }
  }
}

TEST_F(LanesTest, WhatTheClockStandsForIsKnownUntilAnEventDoes) {
  Lane* lane = lanes->claim(me, kStream);
  for (unsigned i = 1; i <= 3; ++i) {
    lane->submit(10);
    lane->push(by_the_clock(lane->done(), 100 * i));
    EXPECT_EQ(lane->unseen_ns, 10 * i);
    EXPECT_EQ(lane->marks, i);
    EXPECT_EQ(lane->marked_at_ns, 100 * i);
    EXPECT_FALSE(lane->at_work());
  }
  lane->submit(10);
  Mark mark = by_the_clock(lane->done(), 400);
  mark.event = kEvent;
  lane->push(mark);
  EXPECT_TRUE(lane->at_work());
  EXPECT_EQ(lane->unseen_ns, 0u);
  EXPECT_EQ(lane->marks, 1u);
  EXPECT_EQ(lane->first().event, kEvent);
  EXPECT_EQ(lane->first().position, 40u);
}

TEST_F(LanesTest, NothingIsLostOfALaneThatBecomesAnothers) {
  Lane* lane = lanes->claim(ended_thread(), kStream);
  lane->submit(100);
  lane->finished = 100;
  for (unsigned i = 1; i < Lanes::kSize + 1; ++i) {
    Lane* mine = lanes->claim(me, reinterpret_cast<CUstream>(0x10000ul + i));
    ASSERT_NE(mine, nullptr);
    mine->submit(1);
  }
  EXPECT_EQ(lane->owner, me) << "it was taken";
  EXPECT_EQ(lanes->submitted_ns(), 100 + Lanes::kSize);
  EXPECT_EQ(lanes->finished_ns(), 100u);
}

TEST_F(LanesTest, WhatAUnitReallyTakesCorrectsWhatItWasCharged) {
  lanes->claim(me, kStream)->submit(100);
  lanes->correct(100, 30);
  EXPECT_EQ(lanes->submitted_ns(), 30u);
  lanes->correct(30, 5000);
  EXPECT_EQ(lanes->submitted_ns(), 5000u);
}

// What threads do at once counts once.
TEST_F(LanesTest, HostTimeIsTheUnionOfItsThreadsTimes) {
  Lane* mine = lanes->claim(me, kStream);
  Lane* others = lanes->claim(me + 1, kStream);
  lanes->host_begins(*mine, 100);
  lanes->host_begins(*others, 150);
  lanes->host_ends(me, 200);
  EXPECT_EQ(lanes->host_ns(), 100u);
  lanes->host_ends(me + 1, 260);
  EXPECT_EQ(lanes->host_ns(), 160u);
  lanes->host_ends(me, 900);  // it has not begun again
  EXPECT_EQ(lanes->host_ns(), 160u);
}

TEST_F(LanesTest, LeaveIsTakenWhileThereIsEnough) {
  Lane* lane = lanes->claim(me, kStream);
  EXPECT_FALSE(lane->takes(1));
  lane->allow(25);
  EXPECT_FALSE(lane->takes(0));  // not known
  EXPECT_TRUE(lane->takes(10));
  EXPECT_FALSE(lane->takes(20));
  EXPECT_TRUE(lane->takes(15));
  EXPECT_EQ(lane->done(), 25u);
}

TEST_F(LanesTest, TheOnlyUnitSinceAMarkIsKnown) {
  Lane* lane = lanes->claim(me, kStream);
  EXPECT_EQ(lane->only_unit(), 0u);
  lane->unit = 7;
  lane->unit_end = 10;
  lane->submit(10);
  EXPECT_EQ(lane->only_unit(), 7u);
  lane->submit(10);
  EXPECT_EQ(lane->only_unit(), 0u);
}

}  // namespace
}  // namespace sluice::hook
