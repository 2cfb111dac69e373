#include "bench/report.h"

#include <gmock/gmock.h>
#include <unistd.h>

#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <sstream>

namespace sluice::bench {
namespace {

using testing::EndsWith;
using testing::HasSubstr;
using testing::StartsWith;

TEST(Summary, TakesNearestRanks) {
  std::vector<double> v;
  for (int i = 1; i <= 100; ++i) v.push_back(101 - i);
  const Samples s = summarise(v);
  EXPECT_EQ(s.n, 100);
  EXPECT_EQ(s.p50, 50);
  EXPECT_EQ(s.p99, 99);
  EXPECT_EQ(s.max, 100);
  EXPECT_EQ(s.spread, 25);
  EXPECT_EQ(summarise({}).n, 0);
}

TEST(StolenTime, IsTheEighthFigureOfProcStat) {
  const auto read = [](const char* text) {
    std::istringstream stat(text);
    const ProcessorTime t = read_processor_time(stat);
    return std::pair(t.all, t.stolen);
  };
  EXPECT_EQ(read("cpu  100 1 20 300 4 0 6 7 50 0\ncpu0 1 2"),
            std::pair(uint64_t{438}, uint64_t{7}));
  EXPECT_EQ(read("cpu  100 1 20"), std::pair(uint64_t{0}, uint64_t{0})) << "of an old kernel";
  EXPECT_EQ(read(""), std::pair(uint64_t{0}, uint64_t{0}));
}

TEST(Report, SeveralBenchmarksShareOneJsonList) {
  const std::string path = testing::TempDir() + "/rows-" + std::to_string(getpid());
  std::filesystem::remove(path);
  for (const char* name : {"first", "second"}) {
    char program[] = "p", flag[] = "--json", other[] = "--windows", three[] = "3";
    char* argv[] = {program, flag, const_cast<char*>(path.c_str()), other, three, nullptr};
    int argc = 5;
    Report report(name, argc, argv);
    EXPECT_EQ(argc, 3);
    EXPECT_EQ(int_argument(argc, argv, "--windows", 60), 3);
    report.add(Row("a \"case\"", 2, "ns").beside("slow", 8).ratio_at_most(0.5));
    report.add(Row("b", 20, "ns").at_most(10));
    EXPECT_EQ(report.finish(), 0);
  }
  std::ifstream in(path);
  const std::string text{std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
  EXPECT_THAT(text,
              StartsWith("[\n {\"bench\": \"first\", \"case\": \"a \\\"case\\\"\", \"value\": "
                         "2, \"unit\": \"ns\", \"reference\": \"slow\", "
                         "\"reference_value\": 8, \"ratio\": 0.25, \"goal\": \"<= 0.5x\", "
                         "\"met\": true, \"n\": 1, \"spread\": 0},\n"));
  EXPECT_THAT(text, HasSubstr("\"goal\": \"<= 10 ns\", \"met\": false"));
  EXPECT_THAT(text, HasSubstr("},\n {\"bench\": \"second\""));
  EXPECT_THAT(text, EndsWith("}\n]\n"));
}

TEST(Report, AFigureWithoutMeaningFailsTheRun) {
  int argc = 0;
  Report report("x", argc, nullptr);
  report.fail("the reference did no work");
  EXPECT_EQ(report.finish(), 1);
}

}  // namespace
}  // namespace sluice::bench
