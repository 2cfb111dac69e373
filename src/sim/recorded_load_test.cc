#include "sim/recorded_load.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>

#include "tests/support/folder.h"

namespace sluice::sim {
namespace {

TEST(RecordedLoad, ARampGoesInStepsOfASecond) {
  EXPECT_EQ(*plan_of({{Seconds(2), 0, 4}, {Millis(500), 4, 2}, {Seconds(60), 1, 1}}),
            (RatePlan{{Seconds(1), 1}, {Seconds(1), 3}, {Millis(500), 3}, {Seconds(60), 1}}));
}

TEST(RecordedLoad, ArrivalsAreThoseOfTheFunction) {
  const TemporaryFolder folder;
  const std::string path = folder.path + "/arrivals.csv";
  std::ofstream(path) << "timestamp,function\n10,g\n10.5,f\n10.6,g\n11.25,f\n";
  EXPECT_EQ(*read_arrivals(path, "f"), (std::vector<Nanos>{Millis(500), Millis(1250)}));
  EXPECT_EQ(read_arrivals(path, "h").error().message,
            path + ": no line within the duration is of function 'h'");
}

TEST(RecordedLoad, ArrivalsAreReadUpToTheEndOfTheScenario) {
  const TemporaryFolder folder;
  const std::string path = folder.path + "/arrivals.csv";
  std::ofstream(path) << "timestamp\n10\n11\n12\nnot read\n";
  EXPECT_EQ(*read_arrivals(path, "f", Seconds(2)), (std::vector<Nanos>{Seconds(0), Seconds(1)}));
  EXPECT_THAT(read_arrivals(path, "f").error().message, testing::HasSubstr(":5 timestamp: 'not"));
}

}  // namespace
}  // namespace sluice::sim
