#include "cli/run_devices.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace sluice::cli {
namespace {

using nlohmann::json;
using testing::ElementsAre;

const json kState = json::parse(R"({
  "devices": [{"id": "cpu0", "kind": "cpu", "drained": false},
              {"id": "cpu1", "kind": "cpu", "drained": true},
              {"id": "cuda0", "kind": "cuda", "drained": false}],
  "instances": [
    {"device": "cpu0", "state": "ready", "slice": {"sm": 500, "request": 300}},
    {"device": "cpu0", "state": "starting", "slice": {"sm": 1000, "request": 205}},
    {"device": "cpu0", "state": "gone", "slice": {"sm": 1000, "request": 500}},
    {"device": "cuda0", "state": "ready", "slice": {"sm": 1000, "request": 1000}}]})");

TEST(RunDevices, AreTheSoundOnesOfAKind) {
  EXPECT_THAT(sound_devices(kState, "cpu"), ElementsAre("cpu0"));
  EXPECT_THAT(sound_devices(kState, "cuda"), ElementsAre("cuda0"));
  EXPECT_EQ(kind_of(kState, "cuda0"), "cuda");
  EXPECT_EQ(kind_of(kState, "cuda7"), "");
}

TEST(RunDevices, AreReservedByTheAreasOfWhatLives) {
  EXPECT_EQ(reserved_text(kState, "cpu"), "cpu0 is 35.5% reserved and cpu1 is drained");
  EXPECT_EQ(reserved_text(kState, "cuda"), "cuda0 is 100% reserved");
}

TEST(RunDevices, OfAProgramsDevicesTheOneWithItsFaultHasFailed) {
  const json state = json::parse(R"({"devices": [{"id": "cuda0", "fault": ""},
                                                 {"id": "cuda1", "fault": "Xid 79"}]})");
  json program = json::parse(R"({"device_fault": "Xid 79",
                                 "parts": [{"device": "cuda0"}, {"device": "cuda1"}]})");
  EXPECT_EQ(failed_device(state, program), "cuda1");
  program["device_fault"] = "Xid 48";
  EXPECT_EQ(failed_device(state, program), "cuda0") << "the fault has been cleared meanwhile";
}

}  // namespace
}  // namespace sluice::cli
