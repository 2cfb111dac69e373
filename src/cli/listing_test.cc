#include "cli/listing.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <ctime>
#include <sstream>

namespace sluice::cli {
namespace {

using nlohmann::json;

json function(const json& changes = json::object()) {
  json f{{"namespace", "default"},
         {"name", "f"},
         {"replicas", {{"ready", 2}, {"starting", 0}, {"draining", 0}, {"min", 1}, {"max", 0}}},
         {"sm", 2000},
         {"request", 400},
         {"memory", 1 << 20},
         {"slo_ms", 80.0},
         {"p95_ms", 41.2},
         {"violations_pct", 0.5},
         {"rps", 12.0},
         {"cold_starts", 0},
         {"cost_per_1k", 0.001},
         {"unavailable", ""},
         {"last_decision", nullptr},
         {"age_ms", 3000}};
  f.merge_patch(changes);
  return f;
}

// Returns the words of a listing's only row.
std::vector<std::string> row(const std::string& table) {
  std::istringstream in(table.substr(table.find('\n') + 1));
  return {std::istream_iterator<std::string>(in), {}};
}

using Words = std::vector<std::string>;

TEST(Listing, AFunctionsRow) {
  EXPECT_EQ(row(functions_table(json::array({function()}))),
            (Words{"f", "2/2", "200%", "40%", "1.0Mi", "80ms", "41ms", "0.5%", "12.0", "0",
                   "0.0010", "-", "3s"}));
}

TEST(Listing, ReadyIsOfWhatThereShouldBe) {
  const auto ready = [](int is, int starting, int least) {
    const json replicas{{"ready", is}, {"starting", starting}, {"min", least}};
    return row(functions_table(json::array({function({{"replicas", replicas}})})))[1];
  };
  EXPECT_EQ(ready(2, 0, 20), "2/20");
  EXPECT_EQ(ready(2, 1, 1), "2/3");
  EXPECT_EQ(ready(0, 0, 0), "0/0");
}

TEST(Listing, WhatThereIsNotIsADash) {
  const json idle =
      function({{"slo_ms", 0.0}, {"p95_ms", 0.0}, {"violations_pct", 0.0}, {"cost_per_1k", 0.0}});
  const Words words = row(functions_table(json::array({idle})));
  EXPECT_EQ(Words(words.begin() + 5, words.begin() + 8), (Words{"-", "-", "-"}));
  EXPECT_EQ(words[10], "-");
  const Words shed =
      row(functions_table(json::array({function({{"p95_ms", 0.0}, {"violations_pct", 100.0}})})));
  EXPECT_EQ(shed[7], "100.0%");
}

TEST(Listing, AReasonIsNotCutInsideANumber) {
  const std::string why =
      "No slice meets the objective: the fastest batch takes as long as 123.456 ms of 80 ms.";
  const std::string table = functions_table(json::array({function({{"unavailable", why}})}));
  EXPECT_NE(table.find("takes as …"), std::string::npos) << table;
}

// In the kernel's unit of a process's start.
uint64_t ticks_ago(int seconds) {
  timespec now{};
  clock_gettime(CLOCK_BOOTTIME, &now);
  return static_cast<uint64_t>((now.tv_sec - seconds) * sysconf(_SC_CLK_TCK));
}

json program(int used, const std::string& error = "") {
  return {{"id", "train"},
          {"function", "default/train"},
          {"revision", 0},
          {"state", error.empty() ? "ready" : "gone"},
          {"device", "cpu0"},
          {"slice", {{"sm", 1000}, {"request", 300}, {"limit", 300}}},
          {"batch", 1},
          {"pid", 12},
          {"used", used},
          {"used_ms", 4200},
          {"start_time", ticks_ago(7)},
          {"peak_memory", 0},
          {"ready_after_ms", 0},
          {"foreign", true},
          {"error", error}};
}

TEST(Listing, AProgramAboveItsLimitSaysSo) {
  EXPECT_NE(
      listing("instances", json::array({program(360)})).find("uses 36%, above its limit of 30%"),
      std::string::npos);
  EXPECT_EQ(listing("instances", json::array({program(310)})).find("above"), std::string::npos);
}

// Its use is known over all parts, and so is the limit beside it: not above in one row and within
// in the next.
TEST(Listing, AProgramOfSeveralPartsIsAboveItsLimitInAllRowsOrInNone) {
  json pair = program(360);
  for (const int limit : {300, 500})
    pair["parts"].push_back(
        {{"device", "cpu0"}, {"slice", {{"sm", 1000}, {"request", 300}, {"limit", limit}}}});
  for (const char* field : {"device", "slice"}) pair.erase(field);
  pair["used_limit"] = 400;
  EXPECT_EQ(listing("instances", json::array({pair})).find("above"), std::string::npos);
  pair["used"] = 460;
  const std::string text = listing("instances", json::array({pair}));
  const std::string said = "uses 46%, above its limit of 40%";
  EXPECT_NE(text.find(said), text.rfind(said)) << "twice: " << text;
}

TEST(Listing, AnInstanceOfTwoPartsHasARowForEach) {
  json pair = program(0);
  for (const char* device : {"cpu0", "cpu1"})
    pair["parts"].push_back({{"device", device}, {"slice", pair["slice"]}});
  pair["parts"][1]["slice"]["request"] = 250;
  for (const char* field : {"device", "slice"}) pair.erase(field);
  const std::string text = listing("instances", json::array({pair}));
  EXPECT_NE(text.find("cpu0    100%      30%"), std::string::npos) << text;
  EXPECT_NE(text.find("cpu1    100%      25%"), std::string::npos) << text;
  EXPECT_EQ(by_part(by_part(json::array({pair}))).size(), 2u);
}

TEST(Listing, AnEndedProgramKeepsWhatItUsedAndHasNoAge) {
  const std::string ended = listing("instances", json::array({program(360, "exit status 0")}));
  EXPECT_NE(ended.find("4.2"), std::string::npos) << ended;
  EXPECT_EQ(ended.find("7s  exit"), std::string::npos) << ended;
  EXPECT_NE(ended.find("-    exit"), std::string::npos) << ended;
  EXPECT_NE(listing("instances", json::array({program(0)})).find("  7s"), std::string::npos);
}

TEST(Listing, AGroupHasDashesForWhatIsUnknown) {
  json group{{"revision", 2},      {"type", "weak"},  {"sm", 500},
             {"quota", 1000},      {"batch", 4},      {"instances", 3},
             {"in_flight", 1},     {"rps", 12.34},    {"inferences_per_second", 98.7},
             {"concurrency", 1.5}, {"latency_ms", 0}, {"body_bytes", 0},
             {"service_rate", 0},  {"queue_ms", 0},   {"compute_ms", 0}};
  const std::string idle = listing("groups", json::array({group}));
  EXPECT_THAT(idle,
              testing::ContainsRegex("2 +weak +50% +100% +4 +3 +12.3 +98.7 +1.5 +- +- +- +- +-"));
  group.update({{"latency_ms", 87.4},
                {"body_bytes", 2048.2},
                {"service_rate", 45.67},
                {"queue_ms", 0},
                {"compute_ms", 3.456}});
  const std::string busy = listing("groups", json::array({group}));
  EXPECT_THAT(busy, testing::ContainsRegex("1.5 +87ms +2.*Ki +45.7 +0.00ms +3.46ms"));
}

TEST(Listing, FitsItsTerminal) {
  EXPECT_EQ(fitted("abcdef\nab\nrest\n", 4, 3), "abc…\nab\n");
  EXPECT_EQ(fitted("░░░░░\n", 4, 9), "░░░…\n");
  EXPECT_EQ(fitted("abcd\n", 4, 9), "abcd\n");
}

TEST(Listing, EveryColumnHasItsLegend) {
  for (const char* what :
       {"functions", "revisions", "instances", "groups", "devices", "profiles", "decisions"}) {
    std::istringstream head(listing(what, json::array()));
    const std::string text = legend(what);
    for (std::string column; head >> column;)
      EXPECT_NE(text.find("  " + column), std::string::npos) << what << " " << column;
  }
}

TEST(Listing, AProfileSaysWhatItRestsOn) {
  const json point{{"batch", 1}, {"sm", 1000}, {"quota", 1000}, {"latency_p50_us", 12'340}};
  json row{{"function", "default/f"},
           {"model", "/m.pt"},
           {"device_type", "cpu/800m"},
           {"points", json::array({point})},
           {"memory", 0},
           {"estimated", 0.25},
           {"live", 1.3},
           {"measured_at", 0},
           {"conditions", "AMD EPYC"}};
  const std::string text = listing("profiles", json::array({row}));
  EXPECT_THAT(text,
              testing::HasSubstr("estimated, off by about 25%  x1.30       1  12.3ms  -    -"));
  row["estimated"] = 0;
  EXPECT_THAT(listing("profiles", json::array({row})), testing::HasSubstr("cpu/800m  measured "));
}

TEST(Listing, ARevisionShowsTheBeginningOfItsModelsHash) {
  json row{{"function", "default/f"},
           {"revision", 2},
           {"percent", 100},
           {"slo_ms", 80},
           {"model", "/m.pt"},
           {"content", "0123456789abcdef0123456789abcdef"},
           {"created", 0}};
  EXPECT_THAT(listing("revisions", json::array({row})),
              testing::HasSubstr("/m.pt  0123456789ab  "));
  row["content"] = "";
  EXPECT_THAT(listing("revisions", json::array({row})), testing::HasSubstr("/m.pt  -  "));
}

}  // namespace
}  // namespace sluice::cli
