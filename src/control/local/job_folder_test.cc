#include "control/local/job_folder.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "control/local/disk_thread.h"
#include "tests/support/folder.h"
#include "train/checkpoints.h"

namespace sluice::control {
namespace {

namespace fs = std::filesystem;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

struct JobFolders : testing::Test {
  JobFolders() {
    fs::create_directories(data);
    fs::permissions(folder.path, fs::perms(0711));
  }
  Result<PreparedJob> prepare(int epochs = 1) const {
    TrainingSpec spec;
    spec.command = {"/bin/true"};
    spec.epochs = epochs;
    return job.prepare(spec, data + "/models", false, stopped);
  }
  // What a worker does, in its own folder.
  void write(const std::string& name, const std::string& text) const {
    fs::create_directories(job.work());
    std::ofstream(job.work() + "/" + name) << text;
  }
  Result<void> take(bool has_model = true) const {
    return job.take_results(has_model, 5000, stopped);
  }
  static std::string text_of(const fs::path& path) {
    std::ifstream in(path);
    return {std::istreambuf_iterator<char>(in), {}};
  }
  static mode_t mode_of(const std::string& path) {
    struct stat about {};
    return lstat(path.c_str(), &about) == 0 ? about.st_mode & 07777 : 0;
  }
  static void save(const std::string& folder, int64_t step, int64_t epoch) {
    std::string state = "state";
    ASSERT_TRUE(
        train::save_checkpoint(folder, "model", {step, epoch, 0}, {{state.data(), 5}}).ok());
  }

  TemporaryFolder folder;
  const std::string data = folder.path + "/data";
  const FunctionName name{.name = "digits"};
  const JobFolder job{data, name, 1};
  const std::atomic<bool> stopped = false;
};

TEST_F(JobFolders, OneIsClosed) {
  ASSERT_TRUE(prepare().ok());
  EXPECT_EQ(mode_of(job.path()), 0750u);
  EXPECT_EQ(mode_of(data + "/artifacts"), 0711u);
  EXPECT_EQ(mode_of(data + "/artifacts/default"), 0711u);
  EXPECT_FALSE(job.finished());
}

TEST_F(JobFolders, ThatWorkersCannotReachIsRefused) {
  if (geteuid() != 0) GTEST_SKIP() << "without root, workers are users like their platform";
  fs::permissions(folder.path, fs::perms(0700));
  EXPECT_THAT(prepare().error().message, HasSubstr("is in a folder that is closed to workers"));
}

TEST_F(JobFolders, AModelIsThePlatformsOnceTaken) {
  ASSERT_TRUE(prepare().ok());
  write("model.pt", "trained");
  write("model.json", "{}");
  std::ofstream still_open(job.work() + "/model.pt", std::ios::app);
  fs::create_hard_link(job.work() + "/model.pt", folder.path + "/link");
  ASSERT_TRUE(take().ok());
  still_open << "and changed" << std::flush;
  std::ofstream(folder.path + "/link", std::ios::app) << "too";
  EXPECT_TRUE(job.finished());
  EXPECT_EQ(job.model(), job.path() + "/model.pt");
  EXPECT_EQ(text_of(job.model()), "trained");
  EXPECT_THAT(text_of(job.path() + "/function.yaml"), HasSubstr("name: digits-trained"));
  const auto again = prepare();
  EXPECT_TRUE(again->finished) << "after a restart, too";
  EXPECT_EQ(again->samples, 5000);
}

// Whatever its workers left in their folder: the platform's is not written, and nothing waits.
TEST_F(JobFolders, WhatIsNoModelIsNotTaken) {
  ASSERT_TRUE(prepare().ok());
  std::ofstream(folder.path + "/secret") << "root's";
  fs::create_directory(job.work());
  fs::create_symlink(folder.path + "/secret", job.work() + "/model.pt");
  EXPECT_EQ(take().error().message, job.work() + "/model.pt: is a link");
  fs::remove(job.work() + "/model.pt");
  ASSERT_EQ(mkfifo((job.work() + "/model.pt").c_str(), 0666), 0);
  EXPECT_EQ(take().error().message, job.work() + "/model.pt: is no regular file");
  fs::remove(job.work() + "/model.pt");
  write("model.pt", "");
  fs::resize_file(job.work() + "/model.pt", uintmax_t{1} << 42);
  EXPECT_EQ(take().error().message, job.path() + "/model.pt: No space left on device");
  write("model.pt", "trained");
  write("model.json", "");
  fs::resize_file(job.work() + "/model.json", 2 << 20);
  EXPECT_THAT(take().error().message, HasSubstr("at most 1048576 are allowed"));
  write("finished", "");
  EXPECT_FALSE(job.finished()) << "the platform alone says so";
  EXPECT_FALSE(prepare()->finished);
}

TEST_F(JobFolders, ResultsAreKeptWhenTheJobIsDeletedUnlessAsked) {
  for (const int number : {1, 2}) {
    ASSERT_TRUE(prepare().ok());
    write("model.pt", "trained " + std::to_string(number));
    write("model.json", "{}");
    ASSERT_TRUE(take().ok());
    const Retired retired = retire_job_folders(data, name, false);
    const std::string kept = data + "/trained/default/digits-" + std::to_string(number);
    EXPECT_THAT(retired.kept, ElementsAre(kept + "/model.pt"));
    EXPECT_EQ(text_of(kept + "/model.pt"), "trained " + std::to_string(number));
    EXPECT_TRUE(fs::exists(kept + "/function.yaml"));
    EXPECT_EQ(mode_of(kept), 0700u);
    EXPECT_FALSE(fs::exists(job.path()));
    EXPECT_EQ(retired_before(data).size(), retired.removed.size() * static_cast<size_t>(number));
  }
  ASSERT_TRUE(prepare().ok());
  write("model.pt", "trained");
  ASSERT_TRUE(take().ok());
  EXPECT_THAT(retire_job_folders(data, name, true).kept, IsEmpty());
  ASSERT_TRUE(prepare().ok());
  write("model.pt", "half of it");
  EXPECT_THAT(retire_job_folders(data, name, false).kept, IsEmpty()) << "it has not finished";
}

TEST_F(JobFolders, WhatAScriptHasLeftIsKept) {
  ASSERT_TRUE(prepare().ok());
  write("my-model", "text");
  ASSERT_TRUE(take(false).ok());
  EXPECT_EQ(job.model(), "");
  const Retired retired = retire_job_folders(data, name, false);
  ASSERT_EQ(retired.kept.size(), 1u);
  EXPECT_EQ(text_of(retired.kept[0] + "/my-model"), "text");
}

// Before, every local user could write to a job's folder.
TEST_F(JobFolders, OneOfAnEarlierVersionIsClosedAndKeepsItsCheckpoints) {
  fs::create_directories(job.path());
  fs::permissions(job.path(), fs::perms(01777));
  save(job.path(), 7, 0);
  std::ofstream(job.path() + "/model.pt") << "planted";
  std::ofstream(job.path() + "/module.pt") << "planted";
  const auto prepared = prepare();
  ASSERT_TRUE(prepared.ok()) << prepared.error().message;
  EXPECT_EQ(mode_of(job.path()), 0750u);
  EXPECT_EQ(mode_of(job.work()), 0700u);
  EXPECT_EQ(prepared->resume->at.step, 7);
  EXPECT_FALSE(prepared->finished);
  EXPECT_FALSE(fs::exists(job.work() + "/module.pt"));
}

TEST_F(JobFolders, OneThatHadFinishedBeforeHasFinished) {
  fs::create_directories(job.path());
  fs::permissions(job.path(), fs::perms(01777));
  save(job.path(), 70, 3);
  std::ofstream(job.path() + "/model.pt") << "trained";
  EXPECT_TRUE(prepare(3)->finished);
  EXPECT_EQ(text_of(job.model()), "trained");
}

TEST(DiskThread, CarriesOutInOrderAndDropsTheRestAtItsEnd) {
  std::vector<int> done;
  std::promise<void> begun;
  {
    DiskThread disk;
    disk.post([&] { done.push_back(1); });
    EXPECT_EQ(disk.post([&] { return static_cast<int>(done.size()); }).get(), 1);
    disk.post([&] {
      begun.set_value();
      while (!disk.stopping()) std::this_thread::yield();
      done.push_back(2);
    });
    disk.post([&] { done.push_back(3); });
    begun.get_future().wait();
  }
  EXPECT_THAT(done, ElementsAre(1, 2));
}

}  // namespace
}  // namespace sluice::control
