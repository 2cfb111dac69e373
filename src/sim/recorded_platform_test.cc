#include "sim/recorded_platform.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <sstream>

#include "control/local/store.h"
#include "sim/scenario_file.h"
#include "tests/support/folder.h"

namespace sluice::sim {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

// A platform's store: the function `f`, which got 60 requests in the last minute of hour 10, 120 in
// the minute behind it, and some in the minute in progress; and `idle`, which got none.
class Recorded : public testing::Test {
 protected:
  Recorded() {
    for (const char* name : {"f", "idle"}) {
      FunctionSpec s{.name = {.name = name}};
      s.inference().model = {.path = std::string("/models/") + name + ".pt", .content = name};
      s.inference().slo.latency = Millis(100);
      s.inference().token = "secret";
      EXPECT_TRUE(store_.add_revision({s.name, 1, s, 0}, 1).ok());
      EXPECT_TRUE(store_
                      .save_profile({.model = "/moved/" + s.inference().model.path,
                                     .content = name,
                                     .device = {"gpu"},
                                     .memory = 1 << 20,
                                     .points = {{{1, kWhole, kWhole}, Millis(10)}}})
                      .ok());
    }
    control::JournalEntry entry;
    ArrivalHistory::Hour tenth{}, next{};
    tenth[59] = 60;
    next[0] = 120;
    next[1] = 7;  // so far
    entry.arrivals = {{{.name = "f"}, 10, tenth}, {{.name = "f"}, 11, next}};
    EXPECT_TRUE(store_.write(entry).ok());
  }

  Result<Scenario> scenario(const std::string& more, const std::string& functions = "") {
    const std::string text = R"(apiVersion: sluice.dev/v1alpha1
kind: Scenario
metadata: {name: s}
spec:
  store: control.db
  devices: [{type: gpu, count: 2, memory: 1Gi}]
)" + more + functions;
    return parse_scenario(text, "s.yaml", folder_.path);
  }
  static std::string bytes(const std::string& path) {
    std::ostringstream text;
    text << std::ifstream(path).rdbuf();
    return text.str();
  }

  const TemporaryFolder folder_;
  const std::string path_ = folder_.path + "/control.db";
  control::Store store_ = std::move(*control::Store::open(path_));
};

TEST_F(Recorded, ArrivalsAreRatesByTheMinuteUpToTheLastOne) {
  const auto all = read_platform(path_, Seconds(3600));
  ASSERT_TRUE(all.ok()) << all.error().message;
  EXPECT_EQ(all->recorded, Seconds(120));
  ASSERT_EQ(all->loads.size(), 1U);
  EXPECT_THAT(all->loads.begin()->second,
              ElementsAre(RateStep{Seconds(60), 1}, RateStep{Seconds(60), 2}));
  EXPECT_THAT(read_platform(path_, Seconds(60))->loads.begin()->second,
              ElementsAre(RateStep{Seconds(60), 2}));
}

TEST_F(Recorded, TheStoreIsNotChangedWhileThePlatformRunsAndWhileItRests) {
  const auto names = [&] {
    std::set<std::string> all;
    for (const auto& f : std::filesystem::directory_iterator(folder_.path))
      all.insert(f.path().filename());
    return all;
  };
  const std::string file = bytes(path_), log = bytes(path_ + "-wal");
  const auto there = names();
  EXPECT_TRUE(read_platform(path_, Seconds(60)).ok());
  EXPECT_EQ(bytes(path_), file);
  EXPECT_EQ(bytes(path_ + "-wal"), log);
  EXPECT_EQ(names(), there);
  EXPECT_TRUE(store_.write(*std::make_unique<control::JournalEntry>()).ok());

  const std::string copy = folder_.path + "/copy.db";
  { ASSERT_TRUE(control::Store::open(copy).ok()); }
  const std::string rests = bytes(copy);
  EXPECT_TRUE(read_platform(copy, Seconds(60)).ok());
  EXPECT_EQ(bytes(copy), rests);
  EXPECT_FALSE(std::filesystem::exists(copy + "-wal"));
}

TEST_F(Recorded, AScenarioTakesFunctionsProfilesAndLoadsFromIt) {
  const auto s = scenario("  duration: 2m\n");
  ASSERT_TRUE(s.ok()) << s.error().message;
  ASSERT_EQ(s->functions.size(), 2U);
  EXPECT_EQ(s->functions[0].inference().model.path, "/models/f.pt");
  EXPECT_EQ(s->functions[0].inference().token, "");
  ASSERT_EQ(s->profiles.size(), 2U);
  EXPECT_EQ(s->profiles[0].model, "/models/f.pt");  // found by its content
  ASSERT_EQ(s->loads.size(), 1U);
  EXPECT_EQ(s->loads[0].function.name, "f");
}

TEST_F(Recorded, AStoreBesideTheFileStandsInPlaceOfTheFiles) {
  for (const char* named : {"", "  store: elsewhere.db\n"}) {
    const auto s = parse_scenario(std::string(R"(apiVersion: sluice.dev/v1alpha1
kind: Scenario
metadata: {name: s}
spec:
  duration: 1m
  devices: [{type: gpu, count: 2, memory: 1Gi}]
)") + named,
                                  "s.yaml", "/nowhere", path_);
    ASSERT_TRUE(s.ok()) << s.error().message;
    EXPECT_EQ(s->functions.size(), 2U);
    EXPECT_EQ(s->loads.size(), 1U);
  }
}

TEST_F(Recorded, WhatTheFileHasStandsInPlaceOfWhatTheStoreHas) {
  const auto s = scenario(R"(  duration: 1m
  profiles: [{model: /models/f.pt, device: gpu, points: [{batch: 1, sm: 100%, latency: 7ms}]}]
  loads: [{function: f, rate: 3}]
)",
                          R"(---
apiVersion: sluice.dev/v1alpha1
kind: InferenceFunction
metadata: {name: f}
spec:
  model: {path: /models/f.pt}
  slo: {latency: 80ms}
)");
  ASSERT_TRUE(s.ok()) << s.error().message;
  ASSERT_EQ(s->functions.size(), 2U);
  EXPECT_EQ(s->functions[0].inference().slo.latency, Millis(80));
  EXPECT_EQ(s->profiles[0].points[0].median, Millis(7));
  EXPECT_EQ(s->profiles.size(), 2U);
  ASSERT_EQ(s->loads.size(), 1U);
  EXPECT_EQ(s->loads[0].plan[0].rate, 3);
}

TEST_F(Recorded, AFaultNamesTheFileAndWhatIsAllowed) {
  const auto fault = [&](const std::string& more) { return scenario(more).error().message; };
  EXPECT_THAT(fault("  duration: 3m\n"),
              HasSubstr("s.yaml:5 spec.store: has 2m of arrivals; duration may be that at most"));
  ASSERT_TRUE(store_.forget({.name = "f"}).ok());
  EXPECT_THAT(fault("  duration: 1m\n"), HasSubstr("store: has no whole minute of arrivals"));
  for (const char* part : {"", "-wal", "-shm"}) std::filesystem::remove(path_ + part);
  EXPECT_THAT(fault("  duration: 1m\n"), HasSubstr("control.db: there is no such file"));
  std::ofstream(path_) << "no database, but a text that is long enough to be taken for one";
  EXPECT_THAT(fault("  duration: 1m\n"), HasSubstr("file is not a database"));
  std::ofstream(path_, std::ios::trunc) << "";
  EXPECT_THAT(fault("  duration: 1m\n"), HasSubstr("control.db: is no platform's control.db"));
}

}  // namespace
}  // namespace sluice::sim
