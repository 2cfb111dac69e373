#include "process/log_folder.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <sstream>

#include "tests/support/folder.h"

namespace sluice::node {
namespace {

using std::chrono::hours;
using testing::ElementsAre;
using testing::IsEmpty;
using testing::UnorderedElementsAre;

const FileTime kNow = FileTime() + hours(100'000);

EndedLog log_of(const std::string& name, int hours_old, Bytes bytes) {
  return {name, bytes, kNow - hours(hours_old)};
}

TEST(LogFolder, LogsOfEndedInstancesGoByAgeByNumberAndBySize) {
  const LogLimits limits{.one = 10, .age = hours(24), .count = 3, .all = 100};
  struct Case {
    std::vector<EndedLog> ended;
    std::vector<std::string> removed;
  };
  const Case cases[] = {
      {{}, {}},
      {{log_of("a", 24, 1), log_of("b", 25, 1)}, {"b"}},
      {{log_of("a", 4, 1), log_of("b", 1, 1), log_of("c", 2, 1), log_of("d", 3, 1)}, {"a"}},
      {{log_of("a", 1, 60), log_of("b", 2, 40)}, {}},
      {{log_of("a", 1, 60), log_of("b", 2, 41), log_of("c", 3, 1)}, {"b", "c"}},
      {{log_of("a", 1, 101)}, {"a"}},
  };
  for (const Case& c : cases) EXPECT_EQ(logs_to_remove(c.ended, kNow, limits), c.removed);
}

struct LogFiles : testing::Test {
  const TemporaryFolder folder;

  void write(const std::string& name, const std::string& text, int hours_old = 0) const {
    std::ofstream(folder.path + "/" + name) << text;
    std::filesystem::last_write_time(folder.path + "/" + name, kNow - hours(hours_old));
  }
  std::string text(const std::string& name) const {
    return (std::ostringstream() << std::ifstream(folder.path + "/" + name).rdbuf()).str();
  }
  std::vector<std::string> names() const {
    std::vector<std::string> found;
    for (const auto& entry : std::filesystem::directory_iterator(folder.path))
      found.push_back(entry.path().filename());
    return found;
  }
};

TEST_F(LogFiles, WhatLivesAndThePlatformsOwnStays) {
  for (const char* name : {"node", "control", "gateway", "zygote", "mps-cuda0", "living", "ended"})
    write(std::string(name) + ".log", "said", 1000);
  write("ended.log.1", "said before", 1001);
  write("notes.txt", "not a log", 1000);
  tidy_logs(folder.path, {"living"}, kNow);
  EXPECT_THAT(names(), UnorderedElementsAre("node.log", "control.log", "gateway.log", "zygote.log",
                                            "mps-cuda0.log", "living.log", "notes.txt"));
}

TEST_F(LogFiles, ALongLogIsMovedAsideUnderItsWriter) {
  const LogLimits limits{.one = 8};
  const std::string path = folder.path + "/control.log";
  std::ofstream writer(path, std::ios::app);
  writer << "12345678" << std::flush;
  tidy_logs(folder.path, {}, kNow, limits);
  EXPECT_THAT(names(), ElementsAre("control.log"));
  writer << "9abc" << std::flush;
  tidy_logs(folder.path, {}, kNow, limits);
  EXPECT_EQ(text("control.log.1"), "56789abc");
  EXPECT_EQ(text("control.log"), "");
  writer << "next" << std::flush;
  EXPECT_EQ(text("control.log"), "next");
}

TEST_F(LogFiles, AFolderThatIsNotThereHasNone) {
  tidy_logs(folder.path + "/none", {}, kNow);
  EXPECT_THAT(names(), IsEmpty());
}

}  // namespace
}  // namespace sluice::node
