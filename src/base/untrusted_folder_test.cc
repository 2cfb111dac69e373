#include "base/untrusted_folder.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "tests/support/folder.h"

namespace sluice {
namespace {

namespace fs = std::filesystem;
using testing::UnorderedElementsAre;

struct UntrustedFolders : testing::Test {
  UntrustedFolders() {
    fs::create_directories(inside("sub"));
    std::ofstream(inside("file")) << "text";
    std::ofstream(folder.path + "/outside") << "secret";
    fs::create_symlink(folder.path + "/outside", inside("link"));
    fs::create_directory_symlink(folder.path, inside("way"));
  }
  std::string inside(const std::string& name) const { return folder.path + "/theirs/" + name; }
  static uid_t owner(const std::string& path) {
    struct stat about {};
    return lstat(path.c_str(), &about) == 0 ? about.st_uid : 0;
  }

  TemporaryFolder folder;
};

TEST_F(UntrustedFolders, NoLinkIsFollowed) {
  const auto theirs = UntrustedFolder::open(folder.path + "/theirs");
  ASSERT_TRUE(theirs.ok());
  EXPECT_EQ(*theirs->file("file")->text(10), "text");
  EXPECT_TRUE(theirs->folder("sub").ok());
  EXPECT_EQ(theirs->file("link").error().message, inside("link") + ": is a link");
  EXPECT_EQ(theirs->folder("way").error().message, inside("way") + ": is no folder");
  EXPECT_EQ(theirs->folder("none").error().kind, ErrorKind::kNotFound);
  EXPECT_EQ(UntrustedFolder::open(inside("way")).error().kind, ErrorKind::kInvalid);
  EXPECT_THAT(theirs->names("", 10), UnorderedElementsAre("file", "link", "sub", "way"));
  EXPECT_EQ(theirs->names("", 2).size(), 2u);
}

// A user may link a file of another's into its folder: that one stays its owner's.
TEST_F(UntrustedFolders, OnlyWhatItsOwnerHasIsGiven) {
  if (geteuid() != 0) GTEST_SKIP() << "root alone gives files";
  constexpr uid_t kOwner = 61'007, kVictim = 61'008;
  ASSERT_EQ(chown((folder.path + "/outside").c_str(), kVictim, kVictim), 0);
  fs::create_hard_link(folder.path + "/outside", inside("stolen"));
  const auto theirs = UntrustedFolder::open(folder.path + "/theirs");
  ASSERT_FALSE(theirs->give(0, kOwner).ok());
  EXPECT_EQ(theirs->owner(), kOwner);
  EXPECT_EQ(owner(inside("file")), kOwner);
  EXPECT_EQ(owner(inside("link")), kOwner);
  EXPECT_EQ(owner(inside("stolen")), kVictim);
  EXPECT_EQ(owner(folder.path), 0u) << "behind a link";
  fs::remove(inside("stolen"));
  EXPECT_TRUE(theirs->give(kOwner, 0).ok());
  EXPECT_EQ(owner(inside("sub")), 0u);
}

}  // namespace
}  // namespace sluice
