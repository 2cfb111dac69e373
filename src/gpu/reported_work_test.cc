#include "gpu/reported_work.h"

#include <gtest/gtest.h>

#include "base/random.h"
#include "tests/support/device_reports.h"

namespace sluice::node {
namespace {

TEST(ReportedWork, FinishedNeverFallsAndIsNeverMoreThanSubmitted) {
  ReportedWork work(kStart);
  const struct {
    const char* what;
    sluice_device_report report;
    int now_ms, submitted_ms, finished_ms;
  } kTable[] = {
      {"nothing yet", {}, 1, 0, 0},
      {"as it is", words(Millis(3), Millis(1), Millis(2)), 2, 3, 1},
      {"an older report", words(Millis(9), Millis(9), Millis(1)), 2, 3, 1},
      {"no newer than now", words(Millis(3), Millis(2), Millis(99)), 3, 3, 2},
      {"a launch that was refused", words(Millis(2), Millis(2), Millis(4)), 4, 2, 2},
      {"finished before it was submitted", words(Millis(4), Millis(6), Millis(5)), 5, 6, 6},
      {"finished falls", words(Millis(8), Millis(1), Millis(6)), 6, 8, 6},
  };
  for (const auto& row : kTable) {
    work.update(row.report, at(Millis(row.now_ms)));
    EXPECT_EQ(work.submitted(), Millis(row.submitted_ms)) << row.what;
    EXPECT_EQ(work.finished(), Millis(row.finished_ms)) << row.what;
  }
}

// Found by the fuzzer: endless work, reported once, looked like progress at each look.
TEST(ReportedWork, AReportOfTheFutureIsNewsOnce) {
  ReportedWork work(kStart);
  const auto endless = words(Seconds(9000), Seconds(8999), Seconds(9000));
  for (int ms = 1; ms < 3000; ++ms) work.update(endless, at(Millis(ms)));
  EXPECT_EQ(work.worked(), at(Millis(1)));
  EXPECT_LE(work.quiet_by(), at(Millis(1) + ReportedWork::kMostInFlight));
}

TEST(ReportedWork, WhateverAPageHoldsSumsStayBounded) {
  for (uint64_t seed = 1; seed <= 50; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    Random random(seed);
    ReportedWork work(kStart);
    const auto any = [&] { return random.chance(0.2) ? ~0ull : random.next() >> random.below(64); };
    Nanos before{0};
    for (int i = 1; i < 200; ++i) {
      const Nanos now = Millis(i);
      work.update({.submitted_ns = any(),
                   .finished_ns = any(),
                   .host_ns = any(),
                   .longest_ns = any(),
                   .seen_ns = any(),
                   .stalled = static_cast<uint32_t>(any())},
                  at(now));
      ASSERT_LE(before, work.finished());
      ASSERT_LE(work.finished(), work.submitted());
      ASSERT_LE(work.submitted(), ReportedWork::kFastest * now);
      ASSERT_LE(work.host(), ReportedWork::kFastest * now);
      ASSERT_LE(work.longest(), ReportedWork::kFastest * now);
      ASSERT_LE(work.quiet_by(), at(now) + ReportedWork::kMostInFlight);
      before = work.finished();
    }
  }
}

}  // namespace
}  // namespace sluice::node
