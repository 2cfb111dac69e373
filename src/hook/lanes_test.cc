// The account of work in flight.
#include "hook/lanes.h"

#include <gtest/gtest.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <memory>
#include <thread>

namespace sluice::hook {
namespace {

const CUstream kStream = reinterpret_cast<CUstream>(0x1000);
const CUstream kOther = reinterpret_cast<CUstream>(0x2000);

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
    lane->push({nullptr, lane->done(), 0, round, 0, 0, true});
    EXPECT_EQ(lane->open_ns(), 0u);
    EXPECT_EQ(lane->last().unit, round);
    if (lane->marks < Lane::kMarks) continue;
    EXPECT_EQ(lane->first().unit, round - Lane::kMarks + 1);
    lane->pop();
  }
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
