#include "cli/kept_trials.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "tests/support/folder.h"

namespace sluice::cli {
namespace {

constexpr UnixMillis kNow = 1'000'000'000'000;
constexpr UnixMillis kMinute = 60'000;
const Configuration kWholeDevice{1, kWhole, kWhole}, kHalf{1, kWhole, {500}};

class KeptTrialsTest : public testing::Test {
 protected:
  control::Profile subject() const {
    return {.model = "/m.pt",
            .content = "aa",
            .device = {"cpu/500m"},
            .points = {},
            .conditions = "this machine",
            .measured_at = kNow};
  }
  // Those that a start finds, so long after the first one.
  size_t found(const control::Profile& of, UnixMillis later = kMinute) const {
    return KeptTrials(folder.path + "/trials", of, kNow + later).count();
  }
  void keep_two() const {
    KeptTrials trials(folder.path + "/trials", subject(), kNow);
    trials.keep({.at = kWholeDevice, .median = Millis(5)});
    trials.keep({.at = kHalf, .median = Millis(9)});
  }
  std::filesystem::path file() const {
    return std::filesystem::directory_iterator(folder.path + "/trials")->path();
  }
  const TemporaryFolder folder;
};

TEST_F(KeptTrialsTest, TheNextStartFindsThemUntilTheMeasurementHasEnded) {
  keep_two();
  KeptTrials next(folder.path + "/trials", subject(), kNow + kMinute);
  ASSERT_EQ(next.count(), 2u);
  EXPECT_EQ(next.find(kHalf)->median, Millis(9));
  EXPECT_EQ(next.find({2, kWhole, kWhole}), nullptr);
  next.keep({.at = {2, kWhole, kWhole}, .median = Millis(8)});
  EXPECT_EQ(found(subject()), 3u) << "killed once more";
  next.forget();
  EXPECT_EQ(found(subject()), 0u);
}
TEST_F(KeptTrialsTest, OthersAreNotTheirs) {
  keep_two();
  control::Profile other = subject();
  other.content = "bb";
  EXPECT_EQ(found(other), 0u);
  other = subject();
  other.device = {"cpu/250m"};
  EXPECT_EQ(found(other), 0u);
  other = subject();
  other.conditions = "another kernel";
  EXPECT_EQ(found(other), 0u);
  EXPECT_EQ(found(subject(), 61 * kMinute), 0u) << "old";
  EXPECT_EQ(found(subject(), -kMinute), 0u) << "of a time to come";
  EXPECT_EQ(found(subject()), 2u);
}
TEST_F(KeptTrialsTest, ADamagedFileIsNone) {
  keep_two();
  for (const char* text : {"", "{", "[]", R"({"model": "/m.pt", "points": [{"batch": -1}]})"}) {
    std::ofstream(file()) << text;
    EXPECT_EQ(found(subject()), 0u) << text;
  }
}
TEST_F(KeptTrialsTest, WhereNothingCanBeWrittenNothingIsKept) {
  std::ofstream(folder.path + "/trials") << "a file in the folder's place";
  keep_two();
  EXPECT_EQ(found(subject()), 0u);
}

}  // namespace
}  // namespace sluice::cli
