#include "control/local/checkpoint_copies.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "tests/support/folder.h"
#include "tests/support/small_disk.h"
#include "train/checkpoints.h"

namespace sluice::control {
namespace {

namespace fs = std::filesystem;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

struct Copies : testing::Test {
  Copies() { copies = *CheckpointCopies::in(mounted.path, data.path); }
  void save(int64_t step) const {
    std::string state = "state";
    ASSERT_TRUE(
        train::save_checkpoint(work.path, "model", {step, 0, step}, {{state.data(), 5}}).ok());
  }
  Result<void> keep(int kept = 2) const { return copies.keep(job, kept, stopped); }
  Result<void> bring_back() { return copies.bring_back(job, trouble, stopped); }
  std::vector<int64_t> own() const {
    std::vector<int64_t> steps;
    for (const train::Checkpoint& c : train::checkpoints_in(work.path)) steps.push_back(c.at.step);
    return steps;
  }

  TemporaryFolder mounted, data, work, home;
  std::string trouble;
  CheckpointCopies copies;
  CopiedJob job{"default/digits@1", "model m\n", work.path, home.path};
  const std::atomic<bool> stopped = false;
};

TEST_F(Copies, AJobThatHasLostItsOwnGoesOnFromThem) {
  for (const int64_t step : {10, 20, 30}) {
    save(step);
    ASSERT_TRUE(keep().ok());
  }
  EXPECT_THAT(copies.steps(job), ElementsAre(20, 30));
  fs::remove_all(work.path + "/checkpoint-30");
  ASSERT_TRUE(bring_back().ok());
  EXPECT_THAT(own(), ElementsAre(10, 20, 30)) << "what is newer than its own";
  for (const int64_t step : {10, 20, 30})
    fs::remove_all(work.path + "/checkpoint-" + std::to_string(step));
  ASSERT_TRUE(bring_back().ok());
  EXPECT_THAT(own(), ElementsAre(20, 30));
}

TEST_F(Copies, OfAJobThatIsOfSomethingElseAreMovedAside) {
  save(10);
  ASSERT_TRUE(keep().ok());
  job.of = "model another\n";
  EXPECT_THAT(copies.steps(job), IsEmpty());
  fs::remove_all(work.path + "/checkpoint-10");
  ASSERT_TRUE(bring_back().ok());
  EXPECT_THAT(own(), IsEmpty());
  save(5);
  ASSERT_TRUE(keep().ok());
  EXPECT_THAT(copies.steps(job), ElementsAre(5));
  EXPECT_TRUE(fs::exists(mounted.path + "/default/digits@1.other-1/checkpoint-10/state"));
}

TEST_F(Copies, ADamagedCheckpointIsNotCopied) {
  save(10);
  ASSERT_TRUE(keep().ok());
  save(20);
  std::ofstream(work.path + "/checkpoint-20/state") << "STATE";
  EXPECT_THAT(keep().error().message, HasSubstr("checkpoint-20/state: is damaged"));
  EXPECT_THAT(copies.steps(job), ElementsAre(10));
}

TEST_F(Copies, ADamagedCopyIsPassedOver) {
  for (const int64_t step : {10, 20}) {
    save(step);
    ASSERT_TRUE(keep().ok());
    fs::remove_all(work.path + "/checkpoint-" + std::to_string(step));
  }
  std::ofstream(mounted.path + "/default/digits@1/checkpoint-20/state") << "STATE";
  ASSERT_TRUE(bring_back().ok());
  EXPECT_THAT(own(), ElementsAre(10));
  EXPECT_THAT(trouble, HasSubstr("checkpoint-20/state: is damaged"));
}

TEST_F(Copies, AFullDiskIsSaidAndLeavesTheEarlierCopy) {
  save(10);
  if (!mount_small(mounted.path, "size=1m,mode=700"))
    GTEST_SKIP() << "mounting is not allowed here";
  ASSERT_TRUE(keep().ok());
  std::string state(2 << 20, 'x');
  ASSERT_TRUE(
      train::save_checkpoint(work.path, "model", {20, 0, 20}, {{state.data(), state.size()}}).ok());
  EXPECT_THAT(keep().error().message, HasSubstr("No space left on device"));
  EXPECT_THAT(copies.steps(job), ElementsAre(10));
  EXPECT_FALSE(fs::exists(mounted.path + "/default/digits@1/.copying"));
  umount2(mounted.path.c_str(), MNT_DETACH);
}

TEST_F(Copies, AnotherFolderInItsPlaceIsNotUsed) {
  EXPECT_TRUE(CheckpointCopies::in(mounted.path, data.path).ok());
  const TemporaryFolder unmounted;
  const auto refused = CheckpointCopies::in(unmounted.path, data.path);
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().kind, ErrorKind::kConflict);
  EXPECT_THAT(refused.error().message, HasSubstr("is it mounted?"));
  const TemporaryFolder anew;  // the platform's own folder is lost
  EXPECT_TRUE(CheckpointCopies::in(mounted.path, anew.path).ok());
}

TEST_F(Copies, AJobThatGoesBackAndADeletedOneHaveNoLaterOnes) {
  for (const int64_t step : {10, 20, 30}) {
    save(step);
    ASSERT_TRUE(keep(3).ok());
  }
  ASSERT_TRUE(copies.forget_after(job, 10).ok());
  EXPECT_THAT(copies.steps(job), ElementsAre(10));
  copies.forget({.name = "digit"});
  EXPECT_THAT(copies.steps(job), ElementsAre(10)) << "another function";
  copies.forget({.name = "digits"});
  EXPECT_FALSE(fs::exists(mounted.path + "/default/digits@1"));
}

TEST_F(Copies, AFolderThatOthersMayWriteToIsRefused) {
  const auto refused = [](const std::string& folder) {
    return CheckpointCopies::check(folder).error().message;
  };
  EXPECT_THAT(refused("copies"), HasSubstr("--checkpoints: 'copies': is not an absolute path"));
  EXPECT_THAT(refused(mounted.path + "/none"), HasSubstr("No such file"));
  EXPECT_THAT(refused("/dev/null"), HasSubstr("is no folder"));
  fs::permissions(mounted.path, fs::perms(0777));
  EXPECT_THAT(refused(mounted.path), HasSubstr("others may write to it"));
}

}  // namespace
}  // namespace sluice::control
