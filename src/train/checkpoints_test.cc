#include "train/checkpoints.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <atomic>
#include <filesystem>
#include <fstream>

#include "tests/support/folder.h"
#include "tests/support/small_disk.h"

namespace sluice::train {
namespace {

using testing::HasSubstr;

constexpr char kModel[] = "2 parameters of 12 bytes";

class Checkpoints : public testing::Test {
 protected:
  Result<Checkpoint> save(int64_t step) {
    return save_checkpoint(folder_.path, kModel, {step, 1, 10 * step}, pieces());
  }
  std::vector<StatePiece> pieces() {
    return {{first_.data(), first_.size()}, {second_.data(), second_.size()}};
  }
  std::vector<int64_t> steps() const {
    std::vector<int64_t> all;
    for (const Checkpoint& c : checkpoints_in(folder_.path)) all.push_back(c.at.step);
    return all;
  }

  TemporaryFolder folder_;
  std::string first_ = "four", second_ = "eight by";
};

TEST_F(Checkpoints, HoldTheStateAndThePosition) {
  ASSERT_TRUE(save(7).ok());
  first_ = "xxxx", second_ = "xxxxxxxx";
  const auto loaded = load_checkpoint(folder_.path + "/checkpoint-7", kModel, pieces());
  ASSERT_TRUE(loaded.ok()) << loaded.error().message;
  EXPECT_EQ(loaded->at, (JobPosition{7, 1, 70}));
  EXPECT_EQ(first_ + second_, "foureight by");
}

TEST_F(Checkpoints, OldOnesAreForgottenAndOneOfTheSameStepStays) {
  for (const int64_t step : {5, 10, 100, 20}) ASSERT_TRUE(save(step).ok());
  EXPECT_EQ(steps(), (std::vector<int64_t>{5, 10, 20, 100}));
  second_ = "changed!";
  ASSERT_TRUE(save(100).ok());
  EXPECT_TRUE(load_checkpoint(folder_.path + "/checkpoint-100", kModel, pieces()).ok());
  EXPECT_EQ(second_, "eight by");
  forget_checkpoints(folder_.path, 2);
  EXPECT_EQ(steps(), (std::vector<int64_t>{20, 100}));
}

TEST_F(Checkpoints, DamagedAndForeignOnesAreNamed) {
  ASSERT_TRUE(save(7).ok());
  const std::string path = folder_.path + "/checkpoint-7";
  const auto fault = [&](const char* model) {
    return load_checkpoint(path, model, pieces()).error().message;
  };
  EXPECT_THAT(fault("3 parameters"), HasSubstr("is a checkpoint of another model"));
  first_ += "+";
  EXPECT_THAT(fault(kModel), HasSubstr("holds 12 bytes of state; this model has 13"));
  first_.pop_back();
  std::ofstream(path + "/state") << "fourEight by";
  EXPECT_THAT(fault(kModel), HasSubstr("is damaged"));
  std::ofstream(path + "/state") << "four";
  EXPECT_THAT(fault(kModel), HasSubstr("ends early"));
  std::ofstream(path + "/manifest") << "{";
  EXPECT_THAT(fault(kModel), HasSubstr("manifest"));
  EXPECT_TRUE(steps().empty());
}

TEST_F(Checkpoints, TheNewestWholeOneIsTakenAndTheDamagedOnesMakeSpace) {
  for (const int64_t step : {5, 10, 20, 30}) ASSERT_TRUE(save(step).ok());
  const std::string newest = folder_.path + "/checkpoint-30";
  std::ofstream(newest + "/state") << "fourEight by";
  std::ofstream(folder_.path + "/checkpoint-20/manifest") << "{";
  std::filesystem::resize_file(folder_.path + "/checkpoint-10/state", 3);
  const auto loaded = load_newest_checkpoint(newest, kModel, pieces());
  ASSERT_TRUE(loaded.ok()) << loaded.error().message;
  EXPECT_EQ(loaded->checkpoint.at.step, 5);
  EXPECT_EQ(first_ + second_, "foureight by");
  EXPECT_EQ(loaded->passed_over, newest +
                                     "/state: is damaged: its checksum differs; the job went on "
                                     "from step 5");
  // The job comes to their steps again.
  for (const int64_t step : {10, 20, 30}) ASSERT_TRUE(save(step).ok());
  EXPECT_EQ(load_newest_checkpoint(newest, kModel, pieces())->checkpoint.at.step, 30);
  EXPECT_THAT(load_newest_checkpoint(newest, "another", pieces()).error().message,
              HasSubstr("is a checkpoint of another model"));
  EXPECT_EQ(steps().size(), 4u);
}

TEST_F(Checkpoints, WithoutAWholeOneTheDamagedOneStays) {
  ASSERT_TRUE(save(5).ok());
  std::filesystem::resize_file(folder_.path + "/checkpoint-5/state", 3);
  EXPECT_THAT(
      load_newest_checkpoint(folder_.path + "/checkpoint-5", kModel, pieces()).error().message,
      HasSubstr("ends early; there is no older whole checkpoint"));
  EXPECT_EQ(steps().size(), 1u);
}

TEST_F(Checkpoints, AJobGoesBackAndForth) {
  for (const int64_t step : {5, 10, 20, 30}) ASSERT_TRUE(save(step).ok());
  const auto aside = [&] {
    std::vector<int64_t> all;
    for (const Checkpoint& c : set_aside_in(folder_.path)) all.push_back(c.at.step);
    return all;
  };
  EXPECT_EQ(go_back_to(folder_.path, 15).error().message,
            "there is no checkpoint of step 15; there are those of 5, 10, 20, 30");
  ASSERT_TRUE(go_back_to(folder_.path, 10).ok());
  EXPECT_EQ(steps(), (std::vector<int64_t>{5, 10}));
  EXPECT_EQ(aside(), (std::vector<int64_t>{20, 30}));
  ASSERT_TRUE(save(20).ok()) << "trained anew";
  ASSERT_TRUE(go_back_to(folder_.path, 30).ok());
  EXPECT_EQ(steps(), (std::vector<int64_t>{5, 10, 20, 30}));
  EXPECT_EQ(aside(), (std::vector<int64_t>{20})) << "as it was before";
  ASSERT_TRUE(go_back_to(folder_.path, 5).ok());
  EXPECT_EQ(aside(), (std::vector<int64_t>{10, 20, 30})) << "the later one of step 20";
  forget_checkpoints(folder_.path, 2);
  EXPECT_EQ(aside(), (std::vector<int64_t>{20, 30}));
}

TEST_F(Checkpoints, ACopyIsWholeOrNotThere) {
  const std::atomic<bool> stopped = false;
  const TemporaryFolder copies;
  ASSERT_TRUE(save(7).ok());
  const std::string original = folder_.path + "/checkpoint-7";
  ASSERT_TRUE(copy_checkpoint(original, copies.path, copies.path, stopped).ok());
  ASSERT_TRUE(copy_checkpoint(original, copies.path, copies.path, stopped).ok()) << "again";
  std::filesystem::remove_all(original);
  first_ = "xxxx", second_ = "xxxxxxxx";
  const auto loaded = load_checkpoint(copies.path + "/checkpoint-7", kModel, pieces());
  ASSERT_TRUE(loaded.ok()) << loaded.error().message;
  EXPECT_EQ(loaded->at, (JobPosition{7, 1, 70}));
  EXPECT_EQ(first_ + second_, "foureight by");

  ASSERT_TRUE(save(8).ok());
  std::ofstream(folder_.path + "/checkpoint-8/state") << "fourEight by";
  EXPECT_EQ(copy_checkpoint(folder_.path + "/checkpoint-8", copies.path, copies.path, stopped)
                .error()
                .message,
            folder_.path + "/checkpoint-8/state: is damaged: its checksum differs");
  EXPECT_EQ(checkpoints_in(copies.path).size(), 1u);
}

// Whatever a worker has left there: nothing waits, and nothing outside is read.
TEST_F(Checkpoints, WhatIsNoneIsPassedOver) {
  ASSERT_TRUE(save(7).ok());
  TemporaryFolder elsewhere;
  ASSERT_TRUE(save_checkpoint(elsewhere.path, kModel, {9, 1, 90}, pieces()).ok());
  const auto made = [&](int step) {
    std::string path = folder_.path + "/checkpoint-" + std::to_string(step);
    std::filesystem::create_directory(path);
    return path + "/manifest";
  };
  ASSERT_EQ(mkfifo(made(10).c_str(), 0666), 0);
  std::filesystem::create_symlink(elsewhere.path + "/checkpoint-9/manifest", made(11));
  std::filesystem::create_directory_symlink(elsewhere.path + "/checkpoint-9",
                                            folder_.path + "/checkpoint-12");
  std::ofstream(made(13)) << "{}";
  std::filesystem::resize_file(folder_.path + "/checkpoint-13/manifest", uintmax_t{1} << 40);
  std::filesystem::create_directories(made(14));
  std::ofstream(folder_.path + "/checkpoint-15") << "no folder";
  EXPECT_EQ(steps(), (std::vector<int64_t>{7}));
  for (int step = 10; step < 16; ++step) ASSERT_TRUE(save(step).ok()) << step;
  EXPECT_EQ(steps().size(), 7u);
}

TEST_F(Checkpoints, AFullDiskLeavesTheEarlierOne) {
  if (!mount_small(folder_.path, "size=1m")) GTEST_SKIP() << "mounting is not allowed here";
  ASSERT_TRUE(save(7).ok());
  fill(folder_.path + "/filler");
  second_.assign(100'000, 'x');
  const auto saved = save(8);
  ASSERT_FALSE(saved.ok());
  EXPECT_THAT(saved.error().message, HasSubstr("No space left on device"));
  EXPECT_EQ(steps(), (std::vector<int64_t>{7}));
  // What was begun is gone.
  for (const auto& entry : std::filesystem::directory_iterator(folder_.path))
    EXPECT_THAT(entry.path().filename(), testing::AnyOf("checkpoint-7", "filler"));
  umount2(folder_.path.c_str(), MNT_DETACH);
}

}  // namespace
}  // namespace sluice::train
