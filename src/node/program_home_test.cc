#include "node/program_home.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "tests/support/folder.h"

namespace sluice::node {
namespace {

namespace fs = std::filesystem;
using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;

struct ProgramHomes : testing::Test {
  ProgramHomes() {
    fs::create_directories(home);
    fs::permissions(home, fs::perms(0750));
  }
  static struct stat about(const std::string& path) {
    struct stat s {};
    lstat(path.c_str(), &s);
    return s;
  }

  TemporaryFolder folder;
  const std::string home = folder.path + "/space/job@1";
};

TEST_F(ProgramHomes, OneIsItsUsersAlone) {
  if (geteuid() != 0) GTEST_SKIP() << "root alone gives folders";
  EXPECT_EQ(*owner_of_home(home), 0u);
  ASSERT_TRUE(give_home(home, 61'007).ok());
  EXPECT_EQ(*owner_of_home(home), 61'007u);
  EXPECT_EQ(about(home).st_uid, 0u);
  EXPECT_EQ(about(home).st_gid, 61'007u);
  EXPECT_EQ(about(home).st_mode & 07777, 0750u);
  EXPECT_EQ(about(home + "/work").st_mode & 07777, 0700u);
  EXPECT_THAT(owners_of_homes(folder.path), ElementsAre(61'007));
}

// The uids of the next daemon may be others.
TEST_F(ProgramHomes, WhatAFormerUserHasLeftIsTheNextOnes) {
  if (geteuid() != 0) GTEST_SKIP() << "root alone gives folders";
  ASSERT_TRUE(give_home(home, 61'007).ok());
  std::ofstream(home + "/work/state") << "parameters";
  ASSERT_EQ(chown((home + "/work/state").c_str(), 61'007, 61'007), 0);
  ASSERT_TRUE(give_home(home, 62'000).ok());
  EXPECT_EQ(about(home + "/work/state").st_uid, 62'000u);
  EXPECT_THAT(owners_of_homes(folder.path), ElementsAre(62'000));
}

TEST_F(ProgramHomes, WhatOthersCouldHaveMadeIsNone) {
  fs::create_directory_symlink(home, folder.path + "/link");
  EXPECT_EQ(owner_of_home(folder.path + "/link").error().kind, ErrorKind::kInvalid);
  EXPECT_EQ(owner_of_home(folder.path + "/none").error().kind, ErrorKind::kNotFound);
  fs::create_directory_symlink(folder.path, home + "/work");
  EXPECT_THAT(owner_of_home(home).error().message, HasSubstr("work: is no folder"));
  fs::permissions(home, fs::perms(01777));
  EXPECT_THAT(give_home(home, 61'007).error().message, HasSubstr("no other can write to"));
}

TEST_F(ProgramHomes, FilesForEveryoneTellOfTheirOwners) {
  if (geteuid() != 0) GTEST_SKIP() << "root alone gives files";
  constexpr uid_t kUid = 1'900'000'003;
  const TemporaryFolder shared;  // in /tmp
  EXPECT_THAT(owners_of_files("/nowhere"), Not(Contains(kUid)));
  ASSERT_EQ(chown(shared.path.c_str(), kUid, kUid), 0);
  EXPECT_THAT(owners_of_files("/nowhere"), Contains(kUid));
}

}  // namespace
}  // namespace sluice::node
