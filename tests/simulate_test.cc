// `sluice simulate` as its user starts it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>

#include "tests/support/folder.h"
#include "tests/support/shell.h"

namespace sluice {
namespace {

using nlohmann::json;
using testing::HasSubstr;

std::string read(const std::string& path) {
  std::ostringstream text;
  text << std::ifstream(path).rdbuf();
  return text.str();
}

const std::string kSimulate = SLUICE_PROGRAM " simulate ";
const std::string kBurst = SLUICE_SCENARIOS "/burst.yaml";

TEST(Simulate, ComparesPoliciesAndWritesTheSameBytesEachTime) {
  const TemporaryFolder folder;
  const std::string once = folder.path + "/once.json", again = folder.path + "/again.json";
  const std::string timeline = folder.path + "/timeline.csv";
  const Ran ran = run(kSimulate + kBurst + " --policies has-gpu,hpa --seed 7 --json " + once +
                      " --timeline " + timeline);
  EXPECT_EQ(ran.code, 0) << ran.said;
  for (const char* word : {"has-gpu", "hpa", "resnet", "bert", "VIOLATE%", "DEVICE-S"})
    EXPECT_THAT(ran.said, HasSubstr(word));
  EXPECT_EQ(run(kSimulate + kBurst + " --policies has-gpu,hpa --seed 7 --json " + again).code, 0);
  EXPECT_THAT(read(once), HasSubstr("\"seed\": 7"));
  EXPECT_EQ(read(once), read(again));
  EXPECT_THAT(read(timeline), HasSubstr("hpa,59,default/bert,"));
}

TEST(Simulate, EveryScenarioPlaysAndEveryRequestEndsOnce) {
  const TemporaryFolder folder;
  int played = 0;
  for (const auto& file : std::filesystem::directory_iterator(SLUICE_SCENARIOS)) {
    if (file.path().extension() != ".yaml") continue;
    if (file.path().stem() == "large" || file.path().stem() == "job_list")
      continue;  // they take a minute or more; bench/run simspeed plays the like of the first
    ++played;
    const std::string results = folder.path + "/results.json";
    const Ran ran = run(kSimulate + file.path().string() + " --policies has-gpu --json " + results +
                        " --plot " + folder.path);
    ASSERT_EQ(ran.code, 0) << file.path() << ran.said;
    const json all = json::parse(read(results));
    for (const json& policy : all["policies"])
      for (const json& f : policy["functions"]) {
        int64_t ended = 0;
        for (const char* how : {"ok", "shed", "failed", "timed_out", "open"})
          ended += f[how].get<int64_t>();
        EXPECT_GT(f["requests"], 100) << file.path() << f;
        EXPECT_EQ(f["requests"], ended) << file.path() << f;
      }
    EXPECT_THAT(read(folder.path + "/has-gpu.svg"), HasSubstr("devices in use"));
  }
  EXPECT_GE(played, 5);
}

TEST(Simulate, ComparesPoliciesOfTrainingJobs) {
  const TemporaryFolder folder;
  const std::string report = folder.path + "/report.json", timeline = folder.path + "/timeline.csv";
  const Ran ran = run(kSimulate + SLUICE_SCENARIOS "/jobs.yaml --policies has-gpu,fifo --json " +
                      report + " --timeline " + timeline);
  ASSERT_EQ(ran.code, 0) << ran.said;
  for (const char* word : {"JCT-MEAN-S", "QUEUED-S", "UTILISED%", "long", "fifo"})
    EXPECT_THAT(ran.said, HasSubstr(word));
  EXPECT_THAT(read(timeline), HasSubstr("fifo,100,default/long,"));
  const json found = json::parse(read(report));
  for (const json& policy : found["policies"]) {
    EXPECT_EQ(policy["all_jobs"]["finished"], 3);
    for (const json& job : policy["jobs"]) {
      EXPECT_GT(job["completion_s"], job["queueing_s"]) << job;
      EXPECT_GE(job["workers_mean"], 0.9) << job;
    }
  }
}

TEST(Simulate, PlaysEachPolicyWithEachPlan) {
  const TemporaryFolder folder;
  const std::string report = folder.path + "/report.json";
  const Ran ran = run(kSimulate + SLUICE_SCENARIOS +
                      "/jobs.yaml --policies has-gpu --plans fifo,sluice --json " + report +
                      " --plot " + folder.path);
  ASSERT_EQ(ran.code, 0) << ran.said;
  EXPECT_THAT(ran.said, HasSubstr("has-gpu/fifo"));
  const json found = json::parse(read(report))["policies"];
  ASSERT_EQ(found.size(), 2u);
  EXPECT_EQ(found[0]["policy"], "has-gpu/fifo");
  EXPECT_EQ(found[1]["policy"], "has-gpu/sluice");
  EXPECT_NE(found[0]["all_jobs"], found[1]["all_jobs"]);
  EXPECT_TRUE(std::filesystem::exists(folder.path + "/has-gpu-fifo.svg"));
  const Ran unknown = run(kSimulate + SLUICE_SCENARIOS "/jobs.yaml --plans fofi");
  EXPECT_EQ(unknown.code, 2);
  EXPECT_THAT(unknown.said, HasSubstr("--plans: fofi not in {sluice,fifo,sjf"));
}

TEST(Simulate, SaysWhereFluidsAreNoMeasure) {
  const Ran ran = run(kSimulate + kBurst + " --stepping fluid --policies has-gpu,dilu");
  EXPECT_EQ(ran.code, 0) << ran.said;
  EXPECT_THAT(ran.said, HasSubstr("sluice: dilu: fluid devices do not have the states"));
  EXPECT_THAT(ran.said, testing::Not(HasSubstr("sluice: has-gpu: fluid")));
}

TEST(Simulate, RefusesWhatItCannotPlayAndSaysWhere) {
  const TemporaryFolder folder;
  const std::string file = folder.path + "/s.yaml";
  std::string text = read(kBurst);
  text.replace(text.find("  settle: 10s"), 13, "  setle: 10s ");
  std::ofstream(file) << text;
  const Ran typo = run(kSimulate + file);
  EXPECT_EQ(typo.code, 2);
  EXPECT_THAT(typo.said, HasSubstr("s.yaml:9 spec.setle: unknown field, did you mean \"settle\"?"));
  const Ran unknown = run(kSimulate + kBurst + " --policies kap");
  EXPECT_EQ(unknown.code, 2);
  EXPECT_THAT(unknown.said, HasSubstr("'kap' is not known"));
  EXPECT_NE(run(kSimulate + folder.path + "/none.yaml").code, 0);
  const Ran endless = run("timeout 20 " + kSimulate + "/dev/zero");
  EXPECT_EQ(endless.code, 2);
  EXPECT_THAT(endless.said, HasSubstr("/dev/zero: is longer than 1048576 bytes"));
}

TEST(Simulate, PlaysFaultsThatItsFileNames) {
  const TemporaryFolder folder;
  const std::string file = folder.path + "/s.yaml", results = folder.path + "/r.json";
  std::string text = read(kBurst);
  text.replace(text.find("  loads:"), 8,
               "  faults: [{at: 30s, crash: gateway, lasts: 5s}, {at: 60s, slow: bert, times: 2}]\n"
               "  loads:");
  std::ofstream(file) << text;
  std::ofstream(folder.path + "/bursty.txt") << "1\r\n2\n\n3\r\n";
  const Ran ran =
      run("gzip " + folder.path + "/bursty.txt && mv " + folder.path + "/bursty.txt.gz " +
          folder.path + "/bursty.txt && " + kSimulate + file + " --json " + results);
  ASSERT_EQ(ran.code, 0) << ran.said;
  const json bert = json::parse(read(results))["policies"][0]["functions"][0];
  EXPECT_EQ(bert["function"], "default/bert");
  EXPECT_GT(bert["violations"][0]["count"],
            100);  // those of five seconds wait for the next gateway
}

TEST(Simulate, AnInterruptKeepsWhatWasComputed) {
  const TemporaryFolder folder;
  const std::string file = folder.path + "/s.yaml", results = folder.path + "/r.json";
  std::string text = read(kBurst);
  text.replace(text.find("duration: 120s"), 14, "duration: 700h");
  std::ofstream(file) << text;
  std::ofstream(folder.path + "/bursty.txt") << "1\n";
  const Ran ran =
      run("timeout --preserve-status -s INT 2 " + kSimulate + file + " --json " + results);
  EXPECT_EQ(ran.code, 0) << ran.said;
  EXPECT_THAT(ran.said, HasSubstr("stopped before the end"));
  EXPECT_THAT(read(results), HasSubstr("\"stopped\": true"));
}

}  // namespace
}  // namespace sluice
