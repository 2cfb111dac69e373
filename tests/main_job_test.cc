// What the README promises in the first five minutes, with the real runtime, as a user starts it:
// the main job in short, every example, and the slices of the emulated GPUs.
#include <filesystem>
#include <fstream>
#include <map>
#include <regex>
#include <sstream>

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

struct Shown {
  int quota = 0, used = 0;  // per cent of the device
};

// What each `sluice top` of the example shows of its programs, in their order.
std::vector<std::map<std::string, Shown>> shown_in(const std::string& text) {
  const std::regex row(R"((\w+) +(\d+)%(?: of at most \d+%)? +uses +(\d+)%)");
  std::vector<std::map<std::string, Shown>> tops;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    if (line == "$ sluice top") tops.emplace_back();
    std::smatch found;
    if (!tops.empty() && std::regex_search(line, found, row))
      tops.back()[found[1]] = {std::stoi(found[2]), std::stoi(found[3])};
  }
  return tops;
}

// One-sided, for the machine may be busy: no program uses more than its slice, each makes progress.
TEST(MainJob, TheEmulatedGpusExampleKeepsEverySlice) {
  const std::string built = std::filesystem::path(program("sluice")).parent_path();
  const Ended ran = run({"/usr/bin/env", "BUILT=" + built, SLUICE_EXAMPLES "/emulated_gpu", "3"});
  ASSERT_EQ(ran.code, 0) << ran.out << ran.err;
  const auto tops = shown_in(ran.out);
  ASSERT_EQ(tops.size(), 3U) << ran.out;
  const auto quotas = [](const std::map<std::string, Shown>& top) {
    std::map<std::string, int> quotas;
    for (const auto& [program, shown] : top) {
      EXPECT_LE(shown.used, shown.quota + 2) << program;
      EXPECT_GE(shown.used, 1) << program;
      quotas[program] = shown.quota;
    }
    return quotas;
  };
  using Quotas = std::map<std::string, int>;
  EXPECT_EQ(quotas(tops[0]), (Quotas{{"batch", 20}, {"server", 30}, {"trainer", 50}})) << ran.out;
  EXPECT_EQ(quotas(tops[1]), (Quotas{{"batch", 20}, {"server", 50}, {"trainer", 30}})) << ran.out;
  EXPECT_EQ(quotas(tops[2]), (Quotas{{"batch", 50}, {"server", 50}})) << ran.out;
}

}  // namespace
}  // namespace sluice
