#include "base/read_file.h"

#include <gmock/gmock.h>
#include <stdlib.h>

#include <filesystem>
#include <fstream>

#include "base/fd.h"

namespace sluice {
namespace {

using testing::HasSubstr;
using testing::StartsWith;

TEST(ReadFile, AWholeFile) {
  char path[] = "/tmp/sluice-read-XXXXXX";
  const Fd fd(mkstemp(path));
  const std::string text(300'000, 'x');
  std::ofstream(path) << text;
  EXPECT_EQ(*read_file(path), text);
  std::filesystem::remove(path);
}

TEST(ReadFile, AFileOfTheKernel) {
  EXPECT_THAT(*read_file("/proc/self/stat"), HasSubstr("(base_test)"));
}

// Opening succeeds, and reading does not: as of a cgroup that is gone by then.
TEST(ReadFile, WhatCannotBeReadIsAnError) {
  const Result<std::string> folder = read_file("/proc");
  ASSERT_FALSE(folder.ok());
  EXPECT_EQ(folder.error().kind, ErrorKind::kUnavailable);
  EXPECT_THAT(folder.error().message, StartsWith("/proc: cannot be read: Is a directory"));
}

TEST(ReadFile, WhatIsMissingIsNotFound) {
  EXPECT_EQ(read_file("/proc/none").error().kind, ErrorKind::kNotFound);
}

}  // namespace
}  // namespace sluice
