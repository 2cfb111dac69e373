#include "trace/time_tables.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>

#include "tests/support/folder.h"

namespace sluice::trace {
namespace {

class TimeTables : public testing::Test {
 protected:
  Result<std::vector<TimeTable>> read(const std::string& text) const {
    const std::string path = folder_.path + "/bert.csv";
    std::ofstream(path) << text;
    return read_time_tables(path);
  }
  TemporaryFolder folder_;
};

TEST_F(TimeTables, ManyModelsByTheNamesOfTheColumns) {
  const auto tables = read(
      "batch,model,sm_pct,quota_pct,latency_ms\n"
      "2,b,25,40,12.5\n"
      "1,a,5,100,3\n"
      "4,a,100,10,20\n");
  ASSERT_TRUE(tables.ok()) << tables.error().message;
  ASSERT_EQ(tables->size(), 2u);
  EXPECT_EQ((*tables)[0].model, "a");
  EXPECT_EQ((*tables)[0].points.size(), 2u);
  EXPECT_EQ((*tables)[1].points[0],
            (MeasuredPoint{.at = {2, Share{250}, Share{400}}, .median = Micros(12'500)}));
}

TEST_F(TimeTables, OneModelWithoutAHeader) {
  const auto tables = read("1.000000,10.000000,0.016135,61.975324\n16,100,0.02,800\n");
  ASSERT_TRUE(tables.ok()) << tables.error().message;
  ASSERT_EQ(tables->size(), 1u);
  EXPECT_EQ((*tables)[0].model, "bert");
  EXPECT_EQ((*tables)[0].points[0],
            (MeasuredPoint{
                .at = {1, Share{100}, kWhole}, .median = Micros(16'135), .throughput = 61.975324}));
}

TEST_F(TimeTables, FaultsNameTheLineTheColumnAndTheValue) {
  const std::string head = "model,batch,sm_pct,quota_pct,latency_ms\n";
  const std::pair<std::string, const char*> cases[] = {
      {"", "has no line"},
      {head, "has no point"},
      {"model,batch,sm_pct,latency_ms\na,1,5,3\n", "quota_pct"},
      {head + "a,1,5,100\n", ":2"},
      {head + "a,1,5,100,nan\n", "latency_ms"},
      {head + "a,1,5,100,-3\n", "latency_ms"},
      {head + "a,1.5,5,100,3\n", "batch: '1.5' is not a whole number"},
      {head + "a,1,0,100,3\n", "sm_pct"},
      {head + "a,1,5,101,3\n", "quota_pct"},
      {head + "a,1,5,100,0\n", "shorter than a nanosecond"},
      {head + "a,1,5,100,3\na,1,5,100,4\n", ":3 this configuration of a stands there twice"},
      {"1,10\n", ":1 '1,10' is not batch, sm, seconds"},
      {"1,10,soon,5\n", "seconds"},
  };
  for (const auto& [text, said] : cases) {
    const auto tables = read(text);
    ASSERT_FALSE(tables.ok()) << text;
    EXPECT_THAT(tables.error().message, testing::HasSubstr(said)) << text;
  }
}

}  // namespace
}  // namespace sluice::trace
