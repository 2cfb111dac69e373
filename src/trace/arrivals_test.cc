#include "trace/arrivals.h"

#include <gmock/gmock.h>

#include <fstream>

#include "tests/support/folder.h"

namespace sluice::trace {
namespace {

// All arrivals of a file, and the fault that ended them.
struct Read {
  std::vector<Arrival> arrivals;
  std::string fault;
};

Read read(const std::string& text) {
  const TemporaryFolder folder;
  const std::string path = folder.path + "/trace";
  std::ofstream(path, std::ios::binary) << text;
  Read read;
  auto file = ArrivalFile::open(path);
  while (read.fault.empty()) {
    auto next = file.ok() ? file->next() : file.error();
    if (!next.ok())
      read.fault = next.error().message.substr(folder.path.size() + 1);
    else if (!*next)
      break;
    else
      read.arrivals.push_back(**next);
  }
  return read;
}

TEST(Arrivals, TimesCountFromTheFirst) {
  const Read r = read("timestamp,function\n10.5,f\r\n10.5,g\n12,f\n");
  EXPECT_EQ(r.fault, "");
  EXPECT_THAT(r.arrivals, testing::ElementsAre(Arrival{.at = Nanos(0), .function = "f"},
                                               Arrival{.at = Nanos(0), .function = "g"},
                                               Arrival{.at = Millis(1500), .function = "f"}));
}

TEST(Arrivals, AzuresTokensComeWithTheirRequests) {
  const Read r = read(
      "TIMESTAMP,ContextTokens,GeneratedTokens\n"
      "2023-11-16 18:15:46.6805900,374,44\n"
      "2023-11-16 18:15:50.9951690,396,109");
  EXPECT_EQ(r.fault, "");
  ASSERT_EQ(r.arrivals.size(), 2U);
  EXPECT_EQ(r.arrivals[1],
            (Arrival{.at = Nanos(4'314'579'000), .prompt_tokens = 396, .output_tokens = 109}));
}

TEST(Arrivals, MomentsAsPeopleAndLogsWriteThem) {
  EXPECT_EQ(moment("2.5"), Millis(2500));
  EXPECT_EQ(moment("1970-01-02T00:00:01Z"), Seconds(86'401));
  EXPECT_EQ(moment("1970-01-01 00:00:00.000000001"), Nanos(1));
  EXPECT_EQ(moment("1970-01-01 00:00:00.009930+00:00"), Nanos(9'930'000));
  EXPECT_EQ(moment("1970-01-01T02:00:01+0200"), Seconds(1));
  EXPECT_EQ(moment("1970-01-01 00:30:00-01:30"), Seconds(7200));
  for (const char* none :
       {"", "-1", "1e99", "2023-02-30 00:00:00", "2023-11-16", "18:15:46", "2023-11-16 24:00:00",
        "2023-11-16 18:15:46.x", "2023-11-16 18:15:46.", "2023-11-16 18:15:46+25:00",
        "2023-11-16 18:15:46+1", "2023-11-16 18:15:46+01:00Zx", "1970-01-01 00:00:00+01:00"})
    EXPECT_EQ(moment(none), std::nullopt) << none;
}

TEST(Arrivals, AFaultNamesItsLineAndKeepsWhatCameBefore) {
  const Read r = read("timestamp,function\n2,f\n1,f\n");
  EXPECT_EQ(r.arrivals.size(), 1U);
  EXPECT_EQ(r.fault, "trace:3 timestamp: it is before the one above; sort the file");
  EXPECT_EQ(read("timestamp,function\n1,\n").fault, "trace:2 function: it is empty");
  EXPECT_EQ(read("timestamp,function\nx,f\n").fault,
            "trace:2 timestamp: 'x' is no time; allowed are seconds and times like 2023-11-16 "
            "18:15:46.68");
  EXPECT_EQ(read("time,function\n").fault,
            "trace:1 there is no column 'timestamp'; there are time and function");
}

}  // namespace
}  // namespace sluice::trace
