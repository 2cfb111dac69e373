#include "node/claimed_use.h"

#include <gtest/gtest.h>

#include "node/device_reports_for_test.h"

namespace sluice::node {
namespace {

// What was reported, and what is believed of it then.
TEST(ClaimedUse, CountsNoFasterThanTimePasses) {
  ClaimedUse use(kStart);
  const struct {
    const char* what;
    sluice_device_report says;
    Nanos now, busy, in_flight;
  } kTable[] = {
      {"nothing yet", {}, Millis(1), Millis(0), Millis(0)},
      {"as it is", words(Millis(1), Millis(2), Millis(0)), Millis(2), Millis(1), Millis(0)},
      {"older news", words(Millis(9), Millis(1), Millis(9)), Millis(2), Millis(1), Millis(0)},
      {"no newer than now", words(Millis(2), Millis(99), Millis(0)), Millis(3), Millis(2),
       Millis(0)},
      {"a kernel begins", words(Millis(2), Millis(4), Millis(20)), Millis(4), Millis(2),
       Millis(20)},
      {"and runs", words(Millis(2), Millis(14), Millis(20)), Millis(14), Millis(12), Millis(20)},
      {"and ends", words(Millis(22), Millis(24), Millis(0)), Millis(24), Millis(22), Millis(0)},
      {"more than passed", words(Seconds(9), Millis(30), Millis(0)), Millis(30), Millis(30),
       Millis(0)},
      {"less than before", words(Millis(3), Millis(40), Millis(0)), Millis(40), Millis(31),
       Millis(0)},
      {"all ones",
       {.busy_ns = ~0ull, .seen_ns = ~0ull, .in_flight_ns = ~0ull, .longest_ns = ~0ull},
       Millis(50),
       Millis(50),
       ClaimedUse::kMostInFlight},
  };
  for (const auto& row : kTable) {
    use.hear(row.says, at(row.now));
    EXPECT_EQ(use.busy(at(row.now)), row.busy) << row.what;
    EXPECT_EQ(use.in_flight(), row.in_flight) << row.what;
  }
}

}  // namespace
}  // namespace sluice::node
