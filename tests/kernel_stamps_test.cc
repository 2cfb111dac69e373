// KernelStamps on stamps that this test writes as a device would.
#include "tests/support/kernel_stamps.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>

#include "tests/support/folder.h"

namespace sluice::bench {
namespace {

// A device whose clock is behind ours.
class Stamps : public testing::Test {
 protected:
  static constexpr Nanos kApart = Seconds(7);

  KernelStamp& stamp(uint64_t number) { return judge_.stamps()[number % kStamps]; }
  static uint64_t of_device(Time t) {
    return static_cast<uint64_t>((t.time_since_epoch() - kApart).count());
  }
  void run(Nanos length, Nanos away = {}) {
    begin();
    now_ += length + away;
    end(away);
  }
  void begin() {
    stamp(next_).begin_ns = of_device(now_);
    judge_.look(now_);
  }
  void end(Nanos away = {}) {
    stamp(next_).away_ns = static_cast<uint64_t>(away.count());
    stamp(next_++).end_ns = of_device(now_);
    judge_.look(now_);
  }

  const TemporaryFolder folder_;
  KernelStamps judge_{folder_.path + "/stamps"};
  Time now_{std::chrono::hours(1)};
  uint64_t next_ = 0;
};

TEST_F(Stamps, NothingAtFirst) {
  judge_.look(now_);
  EXPECT_EQ(judge_.busy(), Nanos(0));
  EXPECT_EQ(judge_.last_end(), std::nullopt);
  EXPECT_EQ(judge_.began_after(Time{}), std::nullopt);
}

TEST_F(Stamps, KernelsCountWithTheMomentBetweenThemAndNotWithAPause) {
  run(Micros(10));
  now_ += Micros(2);
  run(Micros(10));
  now_ += Micros(100);
  run(Micros(10));
  EXPECT_EQ(judge_.busy(), Micros(32));
}

TEST_F(Stamps, ThoseOfTwoStreamsAtOnceCountOnce) {
  const Time begin = now_;
  stamp(0).begin_ns = stamp(1).begin_ns = of_device(begin);
  stamp(1).end_ns = of_device(begin + Micros(10));  // the second is done first
  judge_.look(begin + Micros(10));
  stamp(0).end_ns = of_device(begin + Micros(20));
  judge_.look(begin + Micros(20));
  EXPECT_EQ(judge_.busy(), Micros(20));
}

TEST_F(Stamps, NotWhatTheDeviceDidForOthersMeanwhile) {
  run(Micros(30), Millis(2));
  EXPECT_EQ(judge_.busy(), Micros(30));
}

TEST_F(Stamps, AKernelCountsWhileItRuns) {
  run(Micros(10));
  now_ += Millis(1);
  begin();
  now_ += Millis(5);
  judge_.look(now_);
  EXPECT_NEAR(static_cast<double>(judge_.busy().count()), 5'010'000, 2000);
}

TEST_F(Stamps, MomentsAreByOurClock) {
  const Time first = now_;
  run(Micros(10));
  now_ += Millis(1);
  const Time second = now_;
  run(Micros(10));
  const auto near = [](std::optional<Time> at, Time wanted) {
    return at && *at >= wanted && *at <= wanted + Micros(1);
  };
  EXPECT_TRUE(near(judge_.began_after(first), first));
  EXPECT_TRUE(near(judge_.began_after(first + Micros(2)), second));
  EXPECT_TRUE(near(judge_.last_end(), now_));
}

TEST_F(Stamps, TheRingGoesRound) {
  const int rounds = static_cast<int>(2 * kStamps + 5);
  for (int i = 0; i < rounds; ++i) {
    run(Micros(10));
    now_ += Micros(10);
  }
  EXPECT_EQ(judge_.busy(), rounds * Micros(10));
}

// Where CUDA's assembler is available: it rejects what a driver would refuse.
TEST(StampedKernel, IsAssembled) {
  if (std::system("ptxas --version >/dev/null 2>&1") != 0) GTEST_SKIP() << "there is no ptxas";
  const TemporaryFolder folder;
  std::ofstream(folder.path + "/work.ptx") << stamped_kernel(10'000);
  const std::string assemble = "cd " + folder.path + " && ptxas -arch=sm_75 work.ptx -o work.cubin";
  EXPECT_EQ(std::system(assemble.c_str()), 0);
}

}  // namespace
}  // namespace sluice::bench
