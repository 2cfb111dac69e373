#include "gpu/reported_use.h"

#include <gtest/gtest.h>

#include "tests/support/device_reports.h"

namespace sluice::node {
namespace {

TEST(ReportedUse, GrowsNoFasterThanTimePasses) {
  ReportedUse use(kStart);
  constexpr sluice_device_report kAllOnes{
      .busy_ns = ~0ull, .seen_ns = ~0ull, .in_flight_ns = ~0ull, .longest_ns = ~0ull};
  const struct {
    const char* what;
    sluice_device_report report;
    int now_ms, busy_ms, in_flight_ms;
  } kTable[] = {
      {"nothing yet", {}, 1, 0, 0},
      {"as it is", words(Millis(1), Millis(2), Millis(0)), 2, 1, 0},
      {"an older report", words(Millis(9), Millis(1), Millis(9)), 2, 1, 0},
      {"no newer than now", words(Millis(2), Millis(99), Millis(0)), 3, 2, 0},
      {"a kernel begins", words(Millis(2), Millis(4), Millis(20)), 4, 2, 20},
      {"and runs", words(Millis(2), Millis(14), Millis(20)), 14, 12, 20},
      {"and ends", words(Millis(22), Millis(24), Millis(0)), 24, 22, 0},
      {"more than passed", words(Seconds(9), Millis(30), Millis(0)), 30, 30, 0},
      {"less than before", words(Millis(3), Millis(40), Millis(0)), 40, 30, 0},
      {"all ones", kAllOnes, 50, 50, 200},
  };
  for (const auto& row : kTable) {
    const Time now = at(Millis(row.now_ms));
    use.update(row.report, now);
    EXPECT_EQ(use.busy(now), Millis(row.busy_ms)) << row.what;
    EXPECT_EQ(use.in_flight(), Millis(row.in_flight_ms)) << row.what;
  }
}

}  // namespace
}  // namespace sluice::node
