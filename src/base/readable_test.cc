#include "base/readable.h"

#include <gtest/gtest.h>

#include <fstream>

#include "tests/support/folder.h"

namespace sluice {
namespace {

namespace fs = std::filesystem;

TEST(Readable, IsWhatAllFoldersAboveAreOpenTo) {
  const TemporaryFolder top;
  const fs::path folder = fs::path(top.path) / "a", file = folder / "f";
  fs::create_directory(folder);
  std::ofstream(file) << "text";
  const auto readable = [&](int of_top, int of_folder, int of_file) {
    fs::permissions(top.path, fs::perms(of_top));
    fs::permissions(folder, fs::perms(of_folder));
    fs::permissions(file, fs::perms(of_file));
    return readable_by_all(file);
  };
  EXPECT_TRUE(readable(0755, 0755, 0644));
  EXPECT_TRUE(readable(0711, 0711, 0604)) << "folders need not be listed";
  EXPECT_FALSE(readable(0700, 0755, 0644));
  EXPECT_FALSE(readable(0755, 0750, 0644));
  EXPECT_FALSE(readable(0755, 0755, 0640));
  EXPECT_FALSE(readable_by_all(folder / "none"));
  EXPECT_FALSE(runnable_by_all(file));
  fs::permissions(file, fs::perms(0711));
  EXPECT_TRUE(runnable_by_all(file)) << "a program need not be read";
  EXPECT_TRUE(runnable_by_all(folder));
  fs::permissions(folder, fs::perms(0711));
  EXPECT_FALSE(runnable_by_all(folder)) << "its files cannot be listed";
}

}  // namespace
}  // namespace sluice
