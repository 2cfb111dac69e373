#include "cli/slices_view.h"

#include <gtest/gtest.h>

namespace sluice::cli {
namespace {

using nlohmann::json;

json instance(const char* id, const char* device, int request, int limit, int used,
              const char* state = "ready") {
  return {{"id", id},
          {"device", device},
          {"state", state},
          {"used", used},
          {"slice", {{"sm", 1000}, {"request", request}, {"limit", limit}}}};
}

json device(const char* id, int reserved) {
  return {{"id", id}, {"reserved", reserved}};
}

std::string view(const std::vector<json>& devices, const std::vector<json>& instances) {
  return slices_view(devices, instances);
}

TEST(SlicesView, ShowsWhatIsUsedRequestedBorrowedAndLeft) {
  EXPECT_EQ(view({device("cpu0", 700), device("cpu1", 0)},
                 {instance("a", "cpu0", 400, 1000, 600), instance("bb", "cpu0", 300, 300, 100)}),
            "cpu0    70% reserved  a     40% of at most 100%  uses  60%  ████████▓▓▓▓········\n"
            "                      bb    30%                  uses  10%  ██░░░░\n"
            "cpu1     0% reserved\n");
}

TEST(SlicesView, NothingIsTooSmallToBeSeenAndNothingLeavesTheBar) {
  const std::string small = view({device("d", 10)}, {instance("a", "d", 10, 10, 1)});
  EXPECT_NE(small.find("  █\n"), std::string::npos) << small;
  const std::string large = view({device("d", 1000)}, {instance("a", "d", 1000, 1000, 1400)});
  EXPECT_NE(large.find("140%  ████████████████████\n"), std::string::npos) << large;
}

TEST(SlicesView, AnInstanceOfTwoPartsStandsOnBothDevices) {
  json pair = instance("pair", "", 0, 0, 100);
  for (const char* field : {"device", "slice"}) pair.erase(field);
  for (const auto& [device, request] : {std::pair("cpu0", 300), {"cpu1", 200}})
    pair["parts"].push_back(
        {{"device", device}, {"slice", {{"sm", 1000}, {"request", request}, {"limit", request}}}});
  EXPECT_EQ(view({device("cpu0", 300), device("cpu1", 200)}, {pair}),
            "cpu0    30% reserved  pair    30%                  uses  10%  ██░░░░\n"
            "cpu1    20% reserved  pair    20%                  uses  10%  ██░░\n");
}

TEST(SlicesView, AProgramAboveItsLimitIsMarked) {
  json program = instance("train", "cpu0", 300, 300, 360);
  program["foreign"] = true;
  EXPECT_NE(view({device("cpu0", 300)}, {program}).find("uses  36%  ██████  above its limit\n"),
            std::string::npos);
  program["used"] = 320;  // within the variation of a second's measure
  EXPECT_EQ(view({device("cpu0", 300)}, {program}).find("above"), std::string::npos);
}

TEST(SlicesView, PartsOfAGpuAreItsSms) {
  json half = instance("a", "cuda0", 300, 300, 0);
  half["slice"]["sm"] = 500;
  json gpu = device("cuda0", 150);
  gpu["kind"] = "cuda";
  EXPECT_NE(view({gpu}, {half}).find("30% on 50% of the SMs"), std::string::npos);
}

TEST(SlicesView, SaysWhatIsNotReadyAndLeavesOutWhatIsGone) {
  const std::string text = view({device("d", 500)}, {instance("a", "d", 500, 500, 0, "starting"),
                                                     instance("b", "d", 500, 500, 0, "gone")});
  EXPECT_NE(text.find("░  starting\n"), std::string::npos) << text;
  EXPECT_EQ(text.find("b "), std::string::npos) << text;
}

}  // namespace
}  // namespace sluice::cli
