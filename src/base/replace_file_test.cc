#include "base/replace_file.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <filesystem>
#include <fstream>
#include <sstream>

#include "tests/support/folder.h"

namespace sluice {
namespace {

std::string text_of(const std::string& path) {
  return (std::ostringstream() << std::ifstream(path).rdbuf()).str();
}

TEST(ReplaceFile, IsWholeAndHasItsMode) {
  const TemporaryFolder folder;
  const std::string path = folder.path + "/token";
  std::ofstream(path + ".new") << "half of what a dead wri";
  ASSERT_TRUE(replace_file(path, "one\n").ok());
  ASSERT_TRUE(replace_file(path, "two\n").ok());
  EXPECT_EQ(text_of(path), "two\n");
  struct stat seen {};
  ASSERT_EQ(stat(path.c_str(), &seen), 0);
  EXPECT_EQ(seen.st_mode & 0777, 0600u);
  EXPECT_FALSE(std::filesystem::exists(path + ".new"));
}

TEST(ReplaceFile, AFlushedOneIsThereAsWell) {
  const TemporaryFolder folder;
  ASSERT_TRUE(replace_file(folder.path + "/boot", "one", 0600, Flush::kYes).ok());
  EXPECT_EQ(text_of(folder.path + "/boot"), "one");
}

TEST(ReplaceFile, AFailureNamesThePathAndLeavesWhatWasThere) {
  const TemporaryFolder folder;
  const std::string taken = folder.path + "/taken";
  std::filesystem::create_directories(taken + "/by-a-folder");
  const Result<void> outcome = replace_file(taken, "text");
  ASSERT_FALSE(outcome.ok());
  EXPECT_EQ(outcome.error().message, taken + ": Is a directory");
  EXPECT_FALSE(std::filesystem::exists(taken + ".new"));
  EXPECT_EQ(replace_file(folder.path + "/no/such", "text").error().message,
            folder.path + "/no/such: No such file or directory");
}

}  // namespace
}  // namespace sluice
