#include "base/regular_file.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <filesystem>
#include <fstream>

#include "base/copy_file.h"
#include "tests/support/folder.h"

namespace sluice {
namespace {

struct RegularFiles : testing::Test {
  std::string write(const std::string& name, const std::string& text) const {
    std::ofstream(folder.path + "/" + name) << text;
    return folder.path + "/" + name;
  }
  TemporaryFolder folder;
};

TEST_F(RegularFiles, WhatIsNoneIsNamedAndNothingWaitsForIt) {
  const std::string fifo = folder.path + "/fifo";
  ASSERT_EQ(mkfifo(fifo.c_str(), 0600), 0);
  EXPECT_EQ(RegularFile::open(fifo).error().message, fifo + ": is no regular file");
  EXPECT_EQ(RegularFile::open(folder.path).error().message, folder.path + ": is a directory");
  EXPECT_EQ(RegularFile::open(folder.path + "/none").error().message,
            folder.path + "/none: no such file, or not readable");
}

TEST_F(RegularFiles, AFileThatIsTooLargeIsNotRead) {
  const auto file = RegularFile::open(write("a", "12345"));
  ASSERT_TRUE(file.ok());
  EXPECT_EQ(*file->text(5), "12345");
  EXPECT_EQ(file->text(4).error().message, folder.path + "/a: has 5 bytes; at most 4 are allowed");
}

TEST_F(RegularFiles, ACopyReplacesWhatIsThereAndKeepsItsContent) {
  const std::string from = write("from", "new"), to = write("to", "old");
  ASSERT_TRUE(copy_file(*RegularFile::open(from), to, 0640).ok());
  write("from", "changed");
  EXPECT_EQ(*RegularFile::open(to)->text(100), "new");
  EXPECT_EQ(RegularFile::open(to)->about().st_mode & 07777, 0640u);
}

// A file with holes takes no space; its copy would fill the disk.
TEST_F(RegularFiles, ACopyThatDoesNotFitIsNotBegun) {
  const std::string from = write("from", "x"), to = folder.path + "/to";
  std::filesystem::resize_file(from, uintmax_t{1} << 42);
  EXPECT_EQ(copy_file(*RegularFile::open(from), to, 0600).error().message,
            to + ": No space left on device");
  EXPECT_FALSE(std::filesystem::exists(to));
  EXPECT_FALSE(std::filesystem::exists(to + ".new"));
}

}  // namespace
}  // namespace sluice
