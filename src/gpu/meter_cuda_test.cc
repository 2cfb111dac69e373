#include "gpu/meter_cuda.h"

#include <gtest/gtest.h>

#include "tests/support/device_reports.h"

namespace sluice::node {
namespace {

// A client of one process; a second may join.
class CudaMeterTest : public testing::Test {
 protected:
  CudaMeterTest() { meter.add_process(kProcess); }

  // Submits and finishes so much more, and the daemon looks. Returns what was charged.
  Nanos step(Nanos by, Nanos submitted = {}, Nanos finished = {}, bool resting = false) {
    now += by;
    report(kProcess, submitted, finished);
    return poll(resting);
  }
  void report(const ProcessIdentity& process, Nanos submitted, Nanos finished) {
    auto& total = totals[process.pid];
    total.first += submitted;
    total.second += finished;
    meter.report(process, words(total.first, total.second, now), at(now));
  }
  Nanos poll(bool resting = false) {
    const auto reading = meter.poll(at(now), resting);
    return reading ? reading->busy : Nanos(0);
  }
  // The account shows a second in which a process was busy for so long; the daemon asks for it a
  // few times.
  void accounted(const ProcessIdentity& process, Nanos busy) {
    account->tell(process.pid, now, now + Seconds(1), busy);
    now += Seconds(1);
    for (int i = 0; i < 4; ++i) meter.watch(process.pid, at(now));
    poll();
  }

  const std::shared_ptr<ScriptedAccount> account = std::make_shared<ScriptedAccount>();
  CudaMeter meter{account, kStart};
  std::map<pid_t, std::pair<Nanos, Nanos>> totals;  // of each process's reports
  Nanos now{0};
};

TEST_F(CudaMeterTest, AClientIsChargedWhatItSubmitsOnce) {
  EXPECT_EQ(step(Millis(1), Millis(3), Millis(1)), Millis(3));
  EXPECT_EQ(step(Millis(2), {}, Millis(2)), Nanos(0));
  EXPECT_EQ(step(Millis(1), Millis(1)), Millis(1));
  EXPECT_EQ(meter.progress().submitted, Millis(4));
  EXPECT_EQ(meter.progress().finished, Millis(3));
}

TEST_F(CudaMeterTest, AProcessThatHasGoneStaysCharged) {
  step(Millis(1), Millis(3), Millis(1));
  meter.remove_process(kProcess);
  now += Millis(1);
  EXPECT_EQ(poll(), Nanos(0));
  EXPECT_EQ(meter.progress().finished, Millis(1)) << "its work runs on";
  now += Millis(2);
  poll();
  EXPECT_EQ(meter.progress().submitted, Millis(3));
  EXPECT_EQ(meter.progress().finished, Millis(3));
}

TEST_F(CudaMeterTest, TheReportsOfTwoProcessesAddUp) {
  meter.add_process(kOther);
  report(kOther, Millis(2), Millis(1));
  EXPECT_EQ(step(Millis(1), Millis(3), Millis(3)), Millis(3));  // the other's is as old as its page
  now += Millis(1);
  report(kOther, Nanos(0), Nanos(0));
  EXPECT_EQ(poll(), Millis(2));
  EXPECT_EQ(meter.progress().finished, Millis(4));
}

// --- whether a client is at work -----------------------------------------------------------------

// Nothing moves while one long unit runs. A thread that waits for it looks and reports; one that
// sleeps in the driver does not, and is believed as long as anything in flight is.
TEST_F(CudaMeterTest, AClientIsAtWorkWhileItsLongUnitRuns) {
  step(Millis(1), Seconds(1));
  for (int i = 0; i < 300; ++i) step(Millis(1));
  EXPECT_EQ(meter.last_active(), at(now));
  const Nanos reported = now;
  while (now < Seconds(1)) {
    now += Millis(1);
    poll();
  }
  EXPECT_EQ(meter.last_active(), at(reported + CudaMeter::kLag - Millis(1)));
}
TEST_F(CudaMeterTest, AClientThatStopsIsNotAtWorkForLong) {
  step(Millis(1), Seconds(50));
  while (now < Seconds(1)) {
    now += Millis(1);
    poll();
  }
  EXPECT_LE(meter.last_active(), at(ReportedWork::kMostInFlight));
}

// --- the device's account ------------------------------------------------------------------------

TEST_F(CudaMeterTest, AProcessThatReportsNothingIsChargedWhatTheAccountShows) {
  accounted(kOther, Millis(800));  // when it began is not known
  EXPECT_EQ(meter.ungated(), Nanos(0));
  accounted(kOther, Millis(800));
  EXPECT_EQ(meter.ungated(), Millis(790)) << "less what the account rounds";
  accounted(kOther, Millis(800));
  EXPECT_EQ(meter.progress().submitted, 2 * Millis(790));
  EXPECT_EQ(meter.progress().finished, 2 * Millis(790));
}
TEST_F(CudaMeterTest, SoIsOneThatHasAttached) {
  for (int i = 0; i < 3; ++i) accounted(kProcess, Millis(500));
  EXPECT_EQ(meter.ungated(), 2 * Millis(490));
}
TEST_F(CudaMeterTest, NotOneThatReports) {
  for (int i = 0; i < 5; ++i) {
    step(Millis(1), Millis(100), Millis(100));
    accounted(kProcess, Millis(500));
    step(Millis(1), Millis(100), Millis(100));
  }
  EXPECT_EQ(meter.ungated(), Nanos(0));
}
TEST_F(CudaMeterTest, NorOneWithWorkInFlight) {
  step(Millis(1), Seconds(3));
  for (int i = 0; i < 3; ++i) accounted(kProcess, Seconds(1));
  EXPECT_EQ(meter.ungated(), Nanos(0));
}

// --- work in flight ------------------------------------------------------------------------------

TEST_F(CudaMeterTest, AClientThatReportsSoHasDrained) {
  step(Millis(1), Millis(3));
  const Time revoked = at(now);
  EXPECT_FALSE(meter.drained(at(now), revoked, true));
  step(Millis(1), {}, Millis(3), true);
  EXPECT_TRUE(meter.drained(at(now), revoked, true));
}
TEST_F(CudaMeterTest, AStoppedClientHasTheDeviceUntilItsWorkMustHaveRun) {
  step(Millis(1), Millis(11), Millis(1));
  const Time revoked = at(now);
  EXPECT_FALSE(meter.drained(at(now + Millis(9)), revoked, false));
  EXPECT_TRUE(meter.drained(at(now + Millis(10)), revoked, false));
}
TEST_F(CudaMeterTest, AndNoLongerThanTheLongestWork) {
  step(Millis(1), Seconds(50));
  const Time revoked = at(now);
  EXPECT_FALSE(meter.drained(at(now + Millis(100)), revoked, false));
  EXPECT_TRUE(meter.drained(at(now + Millis(200)), revoked, false));
}
TEST_F(CudaMeterTest, OfAClientThatNeverReportsNothingIsKnownForAWhile) {
  poll();
  EXPECT_FALSE(meter.drained(at(now + Millis(1)), at(now), true));
  EXPECT_TRUE(meter.drained(at(now + CudaMeter::kUnreported), at(now), true));
}

}  // namespace
}  // namespace sluice::node
