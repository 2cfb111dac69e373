#include "trace/rates.h"

#include <gmock/gmock.h>
#include <zlib.h>

#include <fstream>

#include "tests/support/folder.h"

namespace sluice::trace {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

class Files : public testing::Test {
 protected:
  std::string file(const std::string& text) {
    const std::string path = folder_.path + "/trace";
    std::ofstream(path, std::ios::binary) << text;
    return path;
  }
  // The message without the file's name.
  std::string fault(std::string_view format, const std::string& text, RateOptions options = {}) {
    const auto rates = read_rates(format, file(text), options);
    if (rates.ok()) return "none";
    return rates.error().message.substr(folder_.path.size() + 1);
  }

 private:
  TemporaryFolder folder_;
};
using RatesTest = Files;

TEST_F(RatesTest, OneRateALineEachForAStep) {
  EXPECT_THAT(*read_rates("lines", file("5\r\n# a comment\n\n 0.70\n"), {}),
              ElementsAre(RateStep{Seconds(1), 5, 5}, RateStep{Seconds(1), 0.7, 0.7}));
  EXPECT_THAT(*read_rates("lines", file("2"), {.scale = 25, .every = Seconds(60)}),
              ElementsAre(RateStep{Seconds(60), 50, 50}));
}

TEST_F(RatesTest, AGzippedFileReadsAsItsText) {
  const std::string path = file("");
  gzFile z = gzopen(path.c_str(), "wb");
  gzputs(z, "1\n2\n");
  gzclose(z);
  EXPECT_EQ(requests_in(*read_rates("lines", path, {})), 3);
}

TEST_F(RatesTest, AzuresMinutesAreSpreadEvenly) {
  const std::string text =
      "HashFunction,HashApp,HashOwner,minute_1,minute_2\n"
      "f,a,o,60,0\n"
      "gggggggg1,a,o,6,12\n";
  EXPECT_THAT(*read_rates("azure-minutes", file(text), {.row = "gggggggg"}),
              ElementsAre(RateStep{Seconds(60), 0.1, 0.1}, RateStep{Seconds(60), 0.2, 0.2}));
  EXPECT_EQ(requests_in(*read_rates("azure-minutes", file(text), {})), 60);
  EXPECT_EQ(fault("azure-minutes", text, {.row = "3"}),
            "trace:4 there is no function '3'; the file has 2");
}

// Azure's own columns, in its order; a hash names a function within its application alone.
TEST_F(RatesTest, AzuresPublishedColumnsReadAsThoseOfItsSamples) {
  const std::string text =
      "HashOwner,HashApp,HashFunction,Trigger,1,2\n"
      "o,a,ffffffff11,timer,60,0\n"
      "o,b,ffffffff11,http,6,12\n"
      "o,b,ffffffff22,http,0,6\n";
  EXPECT_THAT(*read_rates("azure-minutes", file(text), {.row = "ffffffff2"}),
              ElementsAre(RateStep{Seconds(60), 0, 0}, RateStep{Seconds(60), 0.1, 0.1}));
  EXPECT_EQ(requests_in(*read_rates("azure-minutes", file(text), {.row = "2"})), 18);
  EXPECT_EQ(fault("azure-minutes", text, {.row = "ffffffff11"}),
            "trace:5 'ffffffff11' names 2 functions; name one by its row: 1 and 2");
  EXPECT_EQ(fault("azure-minutes", text, {.row = "ffffffff"}),
            "trace:5 'ffffffff' names 3 functions; name one by its row: 1, 2 and 3");
}

TEST_F(RatesTest, AByteOrderMarkAndQuotesAreNoPartOfAField) {
  EXPECT_EQ(requests_in(*read_rates(
                "k6", file("\xEF\xBB\xBF\"target_rps\", \"ramp_seconds\"\r\n\"2\",\"4\"\r\n"), {})),
            4);
  EXPECT_EQ(requests_in(*read_rates("lines",
                                    file("\xEF\xBB\xBF"
                                         "2\n"),
                                    {})),
            2);
  const std::string text = "HashFunction,Name,minute_1\n\"ffffffff\",\"a, b\",60\n";
  EXPECT_EQ(requests_in(*read_rates("azure-minutes", file(text), {.row = "ffffffff"})), 60);
  EXPECT_EQ(fault("k6", "target_rps,ramp_seconds\n\"1,2\n"),
            "trace:2 a quote is not closed in this line");
  EXPECT_EQ(fault("k6", "target_rps,ramp_seconds\n\"1\"2\",2\n"),
            "trace:2 field 1: a quote stands within '\"1\"2\"'");
}

TEST_F(RatesTest, HasGpusRatesAreHeldForTheirDuration) {
  EXPECT_THAT(*read_rates("has-gpu",
                          file(R"({"parameters": {"duration": "5s"},)"
                               "\n"
                               R"("processed_request_counts": [8, 15]})"),
                          {}),
              ElementsAre(RateStep{Seconds(5), 8, 8}, RateStep{Seconds(5), 15, 15}));
}

TEST_F(RatesTest, K6RampsFromTargetToTarget) {
  const Rates rates =
      *read_rates("k6", file("target_rps,ramp_seconds\n10,5\n20,5\n4,0\n4,2\n"), {});
  EXPECT_THAT(rates, ElementsAre(RateStep{Seconds(5), 0, 10}, RateStep{Seconds(5), 10, 20},
                                 RateStep{Seconds(2), 4, 4}));
  EXPECT_EQ(requests_in(rates), 25 + 75 + 8);
  EXPECT_EQ(length_of(rates), Seconds(12));
}

TEST_F(RatesTest, JobsAreTheGpusThatTheyHold) {
  const std::string pods =
      "name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec,qos,pod_phase,creation_time,"
      "deletion_time,scheduled_time\n"
      "a,1,1,1,500,,LS,Running,100,300,100\n"
      "b,1,1,2,1000,,BE,Running,110,130,110\n"
      "c,1,1,0,0,,LS,Running,120,900,120\n";
  EXPECT_THAT(*read_rates("openb-pods", file(pods), {.scale = 2}),
              ElementsAre(RateStep{Seconds(10), 1, 1}, RateStep{Seconds(20), 5, 5},
                          RateStep{Seconds(170), 1, 1}));
  EXPECT_THAT(*read_rates("openb-pods", file(pods), {.row = "BE"}),
              ElementsAre(RateStep{Seconds(20), 2, 2}));
  EXPECT_EQ(fault("openb-pods", pods, {.row = "XX"}),
            "trace: no job of the kind 'XX' holds a GPU; there are LS and BE");
  const std::string job =
      "'Instance': {'service_name': 's', 'type': 'inference', 'gpu_num': 1, 'sm_requests': 0.25, "
      "'sm_limits': 0.5, 'memory': [4]}}\n";
  EXPECT_THAT(*read_rates("dilu-instances",
                          file("{'Time': '2024-06-19 15:46:09', 'Action': 'start', " + job +
                               "{'Time': '2024-06-19 15:46:39', 'Action': 'delete', " + job),
                          {}),
              ElementsAre(RateStep{Seconds(30), 0.25, 0.25}));
}

// A file that is a thousand times as long as it looks is read line by line, up to a limit.
TEST_F(RatesTest, AGzipBombEndsAtALimit) {
  const std::string path = file("");
  const auto bomb = [&](const std::string& line, int mebibytes) {
    gzFile z = gzopen(path.c_str(), "wb1");
    std::string piece;
    while (piece.size() < 1 << 20) piece += line;
    for (int i = 0; i < mebibytes; ++i)
      gzwrite(z, piece.data(), static_cast<unsigned>(piece.size()));
    gzclose(z);
    const auto rates = read_rates("lines", path, {});
    return rates.ok() ? "none" : rates.error().message.substr(path.size());
  };
  EXPECT_EQ(bomb("1\n", 4), ":1000001 there are more than 1000000 steps");
  EXPECT_EQ(bomb("1", 4), ":1 the line is longer than 1 MiB");
  EXPECT_EQ(bomb(std::string(4096, '\0'), 4), ":1 the line has a NUL: this is no text");
  EXPECT_THAT(bomb("#\n", 4), HasSubstr(" there is no rate in the file"));
}

TEST_F(RatesTest, AFaultNamesTheLineTheFieldAndWhatIsAllowed) {
  const struct {
    std::string_view format;
    std::string text, fault;
  } faults[] = {
      {"lines", "", "trace:1 there is no rate in the file"},
      {"lines", "5\nx\n", "trace:2 rate: 'x' is no number from 0 to 1e+06"},
      {"lines", "-1\n", "trace:1 rate: '-1' is no number from 0 to 1e+06"},
      {"lines", "nan\n", "trace:1 rate: 'nan' is no number from 0 to 1e+06"},
      {"lines", "1e9\n", "trace:1 rate: '1e9' is no number from 0 to 1e+06"},
      {"lines", std::string(2 << 20, '1'), "trace:1 the line is longer than 1 MiB"},
      {"lines", std::string("1\0 2\n", 5), "trace:1 the line has a NUL: this is no text"},
      {"azure-minutes", "", "trace:1 the file is empty; its first line names the columns"},
      {"azure-minutes", "HashFunction,minute_1,minute_3\nf,1,2\n",
       "trace:2 there is no column 'minute_2'; there are HashFunction, minute_1 and minute_3"},
      {"azure-minutes", "HashFunction,minute_1\nf\n",
       "trace:2 the line has 1 fields; the first line names 2"},
      {"has-gpu", "[1]", "trace: the file is no JSON object"},
      {"has-gpu", "{}", "trace: processed_request_counts: there is no such list"},
      {"has-gpu", R"({"processed_request_counts": ["x"]})",
       "trace: processed_request_counts[0] is no number from 0 to 1e+06"},
      {"has-gpu",
       "{\"processed_request_counts\": [" + std::string(100'000, '[') + std::string(100'000, ']') +
           "]}",
       "trace: processed_request_counts[0] is no number from 0 to 1e+06"},
      {"k6", "target_rps,ramp_seconds\n1,1e-10\n",
       "trace:2 ramp_seconds: the least is 0.001, or 0 for none"},
      {"k6", "target_rps,ramp_seconds\n1,31622400\n2,1\n",
       "trace:3 the steps last more than 366 days"},
      {"lines", std::string("1 \n2\0 7", 7), "trace:2 the line has a NUL: this is no text"},
      {"k6", "rps\n1\n", "trace:1 there is no column 'target_rps'; there are rps"},
      {"k6", "target_rps,ramp_seconds\n1,-5\n",
       "trace:2 ramp_seconds: '-5' is no number from 0 to 31622400"},
  };
  for (const auto& f : faults) EXPECT_EQ(fault(f.format, f.text), f.fault) << f.format;
  EXPECT_THAT(read_rates("k7", "", {}).error().message, HasSubstr("did you mean 'k6'?"));
  EXPECT_THAT(read_rates("lines", "/dev/zero", {}).error().message,
              HasSubstr("/dev/zero: is no regular file"));
  EXPECT_THAT(read_rates("lines", "/nowhere", {}).error().message,
              HasSubstr("/nowhere: No such file or directory"));
}

}  // namespace
}  // namespace sluice::trace
