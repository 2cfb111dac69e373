// A folder of a test's own, gone with it. For tests only.
#pragma once

#include <filesystem>
#include <string>

#include "base/check.h"

namespace sluice {

struct FolderForTest {
  FolderForTest() {
    char name[] = "/tmp/sluice-test-XXXXXX";
    SLUICE_CHECK(mkdtemp(name) != nullptr, "no folder in /tmp");
    path = name;
  }
  ~FolderForTest() {
    std::error_code ignored;
    std::filesystem::remove_all(path, ignored);
  }
  FolderForTest(const FolderForTest&) = delete;
  FolderForTest& operator=(const FolderForTest&) = delete;

  std::string path;
};

}  // namespace sluice
