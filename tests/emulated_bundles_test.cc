// Every bundle that has a GPU half, over functions on emulated GPUs, as a user starts it: bursts,
// and a GPU that fails. Takes minutes, so `./test --all` alone runs it.
#include <filesystem>
#include <fstream>

#include "tests/support/folder.h"
#include "tests/support/platform.h"

namespace sluice {
namespace {

struct OnGpus {
  const char* bundle;
  const char* arbiter;  // what its GPUs run
};

class EveryBundle : public testing::TestWithParam<OnGpus> {};

INSTANTIATE_TEST_SUITE_P(, EveryBundle,
                         testing::Values(OnGpus{"fast-gshare", "multi_token"},
                                         OnGpus{"dilu", "introspective"}, OnGpus{"smif", "shares"},
                                         OnGpus{"infless", "share_fixed_request"},
                                         OnGpus{"mps-l", "share_fixed_limit"},
                                         OnGpus{"mps-r", "share_fixed_request"},
                                         OnGpus{"tgs", "tgs"}),
                         [](const auto& info) {
                           std::string name = info.param.bundle;
                           std::erase(name, '-');
                           return name;
                         });

// Of each function an instance starts, and another one in a burst or in place of one on the GPU
// that fails. (The machine may be busy: how many are late is not tested.)
TEST_P(EveryBundle, StartsFunctionsOnGpusAndAnotherInstanceUnderLoad) {
  const TemporaryFolder folder;
  const std::string built = std::filesystem::path(program("sluice")).parent_path(),
                    report = folder.path + "/report.json";
  const Ended ran = run({SLUICE_EXAMPLES "/emulated_gpu/run", "--built", built, "--seconds", "16",
                         "--policy", GetParam().bundle, "--report", report});
  ASSERT_EQ(ran.code, 0) << ran.out << ran.err;
  const json figures = json::parse(std::ifstream(report)).at(0);
  ASSERT_EQ(figures["functions"].size(), 3U);
  int starts = 0;
  for (const json& f : figures["functions"]) {
    EXPECT_GT(f["requests"], 20) << f;
    EXPECT_LT(f["late_percent"], 90) << f;
    starts += f["starts"].get<int>();
  }
  EXPECT_GE(starts, 4) << ran.out;
  EXPECT_EQ(figures["left_on_failed_gpu"], 0) << ran.out;
  EXPECT_EQ(figures["arbiters"], json::array({GetParam().arbiter})) << ran.out;
}

}  // namespace
}  // namespace sluice
