// What the README promises in the first five minutes, with the real runtime, as a user starts it:
// the main job in short, every example, and functions on emulated GPUs.
#include <filesystem>
#include <fstream>
#include <map>

#include "tests/support/folder.h"
#include "tests/support/platform.h"

namespace sluice {
namespace {

using testing::HasSubstr;

json report_in(const std::string& file) {
  return json::parse(std::ifstream(file), nullptr, false);
}

// MobileNet alone, whose load begins low and trebles: the slice that fits the beginning is too
// small for the end.
TEST(MainJob, AShortQuickstartResizesStartsAndAnswersEverything) {
  const TemporaryFolder folder;
  std::ofstream(folder.path + "/trace") << "5s 0.4\n6s 2\n3s 0.4\n";
  const std::string report = folder.path + "/report.json";
  const Ended played =
      run({program("sluice"), "--data", folder.path + "/data", "quickstart", "--models",
           SLUICE_MODELS, "--only", "mobilenet-v2", "--seconds", "14", "--level", "0.3", "--trace",
           folder.path + "/trace", "--report", report});
  remove_data(folder.path + "/data");
  ASSERT_EQ(played.code, 0) << played.out << played.err;
  const json all = report_in(report);
  ASSERT_EQ(all["functions"].size(), 1U) << all;
  const json& f = all["functions"][0];
  EXPECT_EQ(f["name"], "default/mobilenet-v2");
  EXPECT_GT(f["requests"], 100) << f;
  EXPECT_EQ(f["failed"], 0) << f;
  EXPECT_EQ(f["ok"].get<int>() + f["shed"].get<int>(), f["requests"].get<int>()) << f;
  EXPECT_GE(f["resizes"], 1) << f << played.out;
  EXPECT_GE(f["starts"], 2) << f << played.out;
  // What was used was held: a slice is a bound, within one window at the beginning and the end.
  EXPECT_LE(f["used_seconds"].get<double>(), 1.1 * f["slice_seconds"].get<double>() + 0.1) << f;
  EXPECT_GT(f["cost"], 0) << f;
  EXPECT_THAT(played.out, HasSubstr("policy has-gpu"));
}

TEST(MainJob, EveryExampleIsAppliedAndAnswers) {
  const Platform p({"--runtime", program("sluice-runtime")});
  std::vector<std::string> names;
  for (const auto& file : std::filesystem::directory_iterator(SLUICE_EXAMPLES)) {
    if (file.path().extension() != ".yaml") continue;
    const Ended applied = p.cli({"apply", "--wait", "-f", file.path()});
    EXPECT_EQ(applied.code, 0) << file.path() << applied.out << applied.err;
    names.push_back(file.path().stem());
  }
  EXPECT_GE(names.size(), 4U);
  for (const json& f : p.get("/v1/functions")) {
    const std::string name = f["name"];
    if (f.contains("job")) continue;  // it trains
    const Ended answer = p.cli({"invoke", name});
    EXPECT_EQ(answer.code, 0) << name << answer.out << answer.err;
  }
}

// Servers of the user's own on emulated GPUs: has-gpu resizes them, one GPU fails under load, and
// the GPUs' own log says what each used. (The machine may be busy: how many are late is not
// tested.)
TEST(MainJob, TheEmulatedGpusExampleServesFunctionsAndOutlivesAGpu) {
  const TemporaryFolder folder;
  const std::string built = std::filesystem::path(program("sluice")).parent_path(),
                    report = folder.path + "/report.json";
  const Ended ran = run({SLUICE_EXAMPLES "/emulated_gpu/run", "--built", built, "--seconds", "12",
                         "--report", report});
  ASSERT_EQ(ran.code, 0) << ran.out << ran.err;
  const json figures = report_in(report).at(0);
  int resizes = 0;
  for (const json& f : figures["functions"]) {
    EXPECT_GT(f["requests"], 20) << f;
    EXPECT_LT(f["late_percent"], 50) << f;
    EXPECT_GT(f["gpu_seconds"], 0) << f;
    resizes += f["resizes"].get<int>();
  }
  EXPECT_EQ(figures["functions"].size(), 3U);
  EXPECT_GE(resizes, 1) << ran.out;
  EXPECT_THAT(ran.out, HasSubstr("Device cuda1 fails: Xid 79"));
  EXPECT_EQ(figures["left_on_failed_gpu"], 0) << ran.out;
}

// One function on a strong and a weak type of device. (How the load is split depends on what else
// the machine does, and is bench/hetero's to say.)
TEST(MainJob, TheSmifExampleUsesBothTypesAndSendsLargeRequestsToTheStrongOne) {
  const TemporaryFolder folder;
  const std::string built = std::filesystem::path(program("sluice")).parent_path(),
                    report = folder.path + "/report.json";
  const Ended ran =
      run({SLUICE_EXAMPLES "/smif/run", "--built", built, "--seconds", "15", "--report", report});
  ASSERT_EQ(ran.code, 0) << ran.out << ran.err;
  const json figures = report_in(report);
  for (const json& load : figures["loads"]) {
    EXPECT_GT(load["ok"], 30) << load;
    EXPECT_EQ(load["failed"], 0) << load;
  }
  std::map<std::string, json> types;
  for (const json& type : figures["types"]) types[type["type"]] = type;
  ASSERT_EQ(types.size(), 2U) << ran.out;
  EXPECT_GT(types["little"]["single"], 100) << ran.out;
  EXPECT_GT(types["big"]["large"], 3) << ran.out;
  EXPECT_GT(types["big"]["weight"], types["little"]["weight"]) << ran.out;
  EXPECT_GT(figures["cost"], 0) << ran.out;
}

// Instances that may not borrow, and want more than twice as much in the bursts.
TEST(MainJob, TheEmulatedGpusKeepSlices) {
  const TemporaryFolder folder;
  const std::string built = std::filesystem::path(program("sluice")).parent_path(),
                    report = folder.path + "/report.json";
  const Ended ran = run({SLUICE_EXAMPLES "/emulated_gpu/run", "--built", built, "--seconds", "12",
                         "--policy", "fixed", "--report", report});
  ASSERT_EQ(ran.code, 0) << ran.out << ran.err;
  const json figures = report_in(report).at(0);
  EXPECT_LE(figures["over_limit_percent"], 3) << ran.out;
  EXPECT_GE(figures["most_used_percent"], 8) << "of 30: " << ran.out;
}

}  // namespace
}  // namespace sluice
