// A folder of a test's own, gone with it. For tests only.
#pragma once

#include <filesystem>
#include <string>

#include "base/check.h"

namespace sluice {

struct TemporaryFolder {
  TemporaryFolder() {
    char name[] = "/tmp/sluice-test-XXXXXX";
    SLUICE_CHECK(mkdtemp(name) != nullptr, "no folder in /tmp");
    path = name;
  }
  ~TemporaryFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(path, ignored);
  }
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;

  std::string path;
};

}  // namespace sluice
