#include "control/local/job_inputs.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "tests/support/folder.h"
#include "tests/support/small_disk.h"

namespace sluice::control {
namespace {

namespace fs = std::filesystem;
using testing::ElementsAre;
using testing::HasSubstr;

// A user's folder that others may not enter, as a home is, and a job's folder.
struct JobInputsTest : testing::Test {
  JobInputsTest() {
    if (geteuid() != 0) return;
    fs::permissions(folder.path, fs::perms(0711));
    for (const std::string& f : {home, job}) fs::create_directory(f);
    fs::permissions(home, fs::perms(0700));
  }
  void SetUp() override {
    if (geteuid() != 0) GTEST_SKIP() << "without root, workers are users like their platform";
  }
  std::string write(const std::string& name, const std::string& text, mode_t mode = 0644) const {
    const fs::path path = home + "/" + name;
    fs::create_directories(path.parent_path());
    std::ofstream(path) << text;
    fs::permissions(path, fs::perms(mode));
    return path;
  }
  static std::string text_of(const fs::path& path) {
    std::ifstream in(path);
    return {std::istreambuf_iterator<char>(in), {}};
  }
  Result<std::vector<std::string>> bring(const std::vector<std::string>& command) const {
    return bring_command(command, job + "/command", stopped);
  }
  Result<std::string> dataset(const std::string& path,
                              std::vector<std::string> command = {}) const {
    TrainingSpec spec;
    spec.command = std::move(command);
    spec.dataset = path;
    return bring_dataset(spec, job + "/dataset", stopped);
  }
  static std::string refusal(const std::vector<std::string>& command) {
    TrainingSpec spec;
    spec.command = command;
    return check_job_inputs(spec).error().message;
  }

  TemporaryFolder folder;
  const std::string home = folder.path + "/home", job = folder.path + "/job";
  const std::atomic<bool> stopped = false;
};

TEST_F(JobInputsTest, AScriptComesWithWhatItNames) {
  const std::string script = write("train.py",
                                   "import helpers\nfrom package.part import f\n"
                                   "open('config.json')\n");
  write("helpers.py", "import deeper");
  write("deeper.py", "");
  write("package/part.py", "open('weights.bin')");
  write("package/weights.bin", std::string("\0\1", 2));
  write("config.json", "{}");
  write("secret", "not named");
  const std::string extra = write("other/list.txt", "a b");
  const auto words = bring({"/usr/bin/python3", script, "--list=" + extra, "500"});
  ASSERT_TRUE(words.ok()) << words.error().message;
  const fs::path copies = job + "/command";
  EXPECT_THAT(*words, ElementsAre("/usr/bin/python3", copies / "0/train.py",
                                  "--list=" + (copies / "0/other/list.txt").string(), "500"));
  for (const char* name : {"train.py", "helpers.py", "deeper.py", "package/part.py",
                           "package/weights.bin", "config.json"})
    EXPECT_EQ(text_of(copies / "0" / name), text_of(home + "/" + name)) << name;
  EXPECT_FALSE(fs::exists(copies / "0/secret"));
}

TEST_F(JobInputsTest, WhatAllMayReadStaysWhereItIs) {
  fs::permissions(home, fs::perms(0755));
  const std::string script = write("train.py", "import helpers");
  EXPECT_THAT(*bring({"/usr/bin/python3", script}), ElementsAre("/usr/bin/python3", script));
}

TEST_F(JobInputsTest, AChangedScriptIsBroughtAgain) {
  const std::string script = write("run", "#!/bin/sh\n1", 0755);
  const auto first = bring({script});
  ASSERT_TRUE(first.ok()) << first.error().message;
  write("run", "#!/bin/sh\n2", 0755);
  EXPECT_EQ(text_of(bring({script})->front()), "#!/bin/sh\n2");
  EXPECT_NE(fs::status(first->front()).permissions() & fs::perms::others_exec, fs::perms::none);
}

TEST_F(JobInputsTest, WhatIsNotBroughtIsRefusedWithWhatToDo) {
  const std::string program = write("trainer",
                                    "\x7f"
                                    "ELF",
                                    0755);
  EXPECT_EQ(refusal({program}),
            "command: " + program +
                " cannot be read by workers, which run as users of their own (61000 and up); a "
                "program is not copied, for it may need what is installed with it: put it where "
                "all may read it, or open it and the folders above it (chmod o+rx)");
  write("data/1", "");
  EXPECT_THAT(refusal({"/usr/bin/python3", "--data=" + home + "/data"}),
              HasSubstr(home + "/data cannot be read by workers"));
  const std::string script = write("train.py", "open('huge')");
  write("huge", "");
  fs::resize_file(home + "/huge", uintmax_t{1} << 40);
  EXPECT_THAT(refusal({"/usr/bin/python3", script}), HasSubstr("huge cannot be read by workers"));
}

TEST_F(JobInputsTest, AClosedDataSetIsLinkedAndAClosedFileOfItCopied) {
  write("digits/images.npy", "images");
  write("digits/labels.npy", "labels", 0600);
  write("digits/notes", "");
  const auto at = dataset(home + "/digits");
  ASSERT_TRUE(at.ok()) << at.error().message;
  EXPECT_EQ(*at, job + "/dataset");
  EXPECT_EQ(fs::hard_link_count(*at + "/images.npy"), 2u);
  EXPECT_EQ(fs::hard_link_count(*at + "/labels.npy"), 1u);
  EXPECT_EQ(fs::status(*at + "/labels.npy").permissions(), fs::perms(0644));
  EXPECT_EQ(fs::status(home + "/digits/labels.npy").permissions(), fs::perms(0600));
  EXPECT_FALSE(fs::exists(*at + "/notes"));
}

TEST_F(JobInputsTest, AScriptsDataSetIsBroughtAsItIs) {
  write("pictures/cats/1.jpg", "a cat");
  const auto at = dataset(home + "/pictures", {"/usr/bin/python3"});
  ASSERT_TRUE(at.ok()) << at.error().message;
  EXPECT_EQ(text_of(*at + "/cats/1.jpg"), "a cat");
}

// In a data set that another user may write to, a link leads root to what that user may not read.
TEST_F(JobInputsTest, AnotherUsersLinkIsNotFollowed) {
  const std::string secret = write("secret", "root's");
  write("digits/a.npy", "a");
  fs::create_symlink(secret, home + "/digits/b.npy");
  ASSERT_TRUE(dataset(home + "/digits").ok());
  fs::remove_all(job + "/dataset");
  ASSERT_EQ(lchown((home + "/digits/b.npy").c_str(), 61'007, 61'007), 0);
  EXPECT_EQ(dataset(home + "/digits").error().message,
            home + "/digits/b.npy: is a link to another user's file");
  fs::remove(home + "/digits/b.npy");
  ASSERT_EQ(mkfifo((home + "/digits/b.npy").c_str(), 0644), 0);
  EXPECT_EQ(dataset(home + "/digits").error().message, home + "/digits/b.npy: is no regular file");
  EXPECT_FALSE(fs::exists(job + "/dataset.new"));
}

TEST_F(JobInputsTest, AFullDiskIsNamed) {
  write("digits/a.npy", std::string(2 << 20, 'x'));
  const std::string script = write("train.py", std::string(2 << 20, '#'));
  if (!mount_small(job, "size=1m")) GTEST_SKIP() << "mounting is not allowed here";
  EXPECT_EQ(dataset(home + "/digits").error().message,
            job + "/dataset.new/a.npy: No space left on device");
  EXPECT_EQ(bring({"/usr/bin/python3", script}).error().message,
            job + "/command/0/train.py: No space left on device");
  umount2(job.c_str(), MNT_DETACH);
}

}  // namespace
}  // namespace sluice::control
