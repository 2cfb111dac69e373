#include "wire/json/json.h"

#include <gtest/gtest.h>

namespace sluice::wire {
namespace {

using nlohmann::json;

TEST(Json, NounsReadWhatTheyWrite) {
  const Slice slice{.sm = {500},
                    .quota = {{200}, {400}},
                    .memory = 1 << 20,
                    .slo = Millis(80),
                    .tolerance = 1300};
  EXPECT_EQ(*slice_from(to_json(slice)), slice);

  const Device device{.id = "cpu0",
                      .node = "n",
                      .model = "EPYC",
                      .millicores = 800,
                      .memory = 1 << 30,
                      .sm_quantum = {1000},
                      .can_resize_sm = true,
                      .price_per_hour = 0.25,
                      .window = Millis(5)};
  EXPECT_EQ(*device_from(to_json(device)), device);
  EXPECT_EQ(to_json(device)["type"], "cpu/800m");
  EXPECT_EQ(device_from({{"id", "cpu0"}})->window, Millis(20)) << "of a node that does not tell";
  const Device gpu{.id = "cuda0",
                   .kind = DeviceKind::kCuda,
                   .uuid = "GPU-1",
                   .bus = "00000000:01:00.0",
                   .compute_capability = 90,
                   .sms = 132,
                   .mps = true,
                   .mps_status = "control daemon 7",
                   .mig = MigMode::kOn,
                   .links = {{"cuda1", 18, PciePath::kNumaNode}},
                   .nics = {{"mlx5_0", PciePath::kSwitch}},
                   .drained = true,
                   .fault = "Xid 79",
                   .set_apart = "it is split by MIG"};
  EXPECT_EQ(*device_from(to_json(gpu)), gpu);
  EXPECT_EQ(to_json(gpu)["links"][0]["path"], "NODE");
  EXPECT_EQ(to_json(gpu)["nics"], json::parse(R"([{"nic": "mlx5_0", "path": "PIX"}])"));
  EXPECT_EQ(to_json(gpu)["mig"], "on");
  EXPECT_FALSE(device_link_from({{"to", "cuda1"}, {"path", "far"}}).ok());
  EXPECT_FALSE(nic_link_from({{"nic", "eth0"}, {"path", "far"}}).ok());
  EXPECT_FALSE(device_from({{"id", "cuda0"}, {"mig", "half"}}).ok());

  Instance i{.id = "resnet-1-ab",
             .function = {"vision", "resnet"},
             .revision = 2,
             .state = InstanceState::kReady,
             .parts = {{"cpu0", slice, {{0}, {300}}}},
             .batch = 4};
  EXPECT_EQ(*instance_from(to_json(i)), i);
  EXPECT_EQ(to_json(i)["device"], "cpu0");
  json without_parts = to_json(i);
  without_parts.erase("parts");
  EXPECT_EQ(*instance_from(without_parts), i);
  i.parts.push_back({"cpu1", {{500}, {{100}, {100}}, 0}, {}});
  EXPECT_EQ(*instance_from(to_json(i)), i);
  EXPECT_FALSE(to_json(i).contains("device"));
  EXPECT_EQ(instance_from({{"id", "a"}, {"parts", json::array()}}).error().message,
            "instance.parts: is empty; an instance has at least one");

  const Reason r{.rule = "up", .text = "because", .numbers = {{"z", 1.5}, {"a", 2}}};
  EXPECT_EQ(*reason_from(to_json(r)), r);
}

TEST(Json, AnActionHasItsNameItsReasonAndItsFields) {
  const Action loan{{"default", "f"},
                    Loan{"server2", "training", "inference"},
                    {"idle", "Nothing runs there.", {{"free", 1}}}};
  EXPECT_EQ(to_json(loan).dump(),
            R"({"action":"loan","from":"training","function":"default/f","node":"server2",)"
            R"("reason":{"numbers":[["free",1.0]],"rule":"idle",)"
            R"("text":"Nothing runs there."},"to":"inference"})");
}

TEST(Json, FaultsNameFieldValueAndWhatIsAllowed) {
  const auto fault = [](const char* text) { return slice_from(json::parse(text)).error().message; };
  EXPECT_EQ(fault(R"({"sm":1001})"), "slice.sm: 1001 is no integer from 0 to 1000");
  EXPECT_EQ(fault(R"({"sm":"1"})"), "slice.sm: \"1\" is no integer from 0 to 1000");
  EXPECT_EQ(fault(R"({"request":300,"limit":200})"),
            "slice.limit: 200 is below the request of 300");
  EXPECT_EQ(fault(R"({"memory":18446744073709551615})"),
            "slice.memory: 18446744073709551615 is no integer from 0 to 1152921504606846976");
  EXPECT_EQ(fault(R"({"slo_us":-5})"), "slice.slo_us: -5 is no integer from 0 to 3600000000");
  EXPECT_EQ(fault(R"({"slo_us":99})"), "slice.slo_us: 99 is below 100; 0: it has none");
  EXPECT_EQ(fault(R"({"slo_us":5000,"tolerance":1100})"),
            "slice.tolerance: 1100 is not between 1200 and 4000; 0: as the arbiter has it");
  EXPECT_EQ(fault(R"({"tolerance":1300})"), "slice.tolerance: 1300 means nothing without slo_us");
  EXPECT_EQ(fault("[]"), "slice: [] is no object");
  EXPECT_EQ(instance_from(json{{"id", "a"}, {"slice", {{"sm", -1}}}}).error().message,
            "instance.slice: slice.sm: -1 is no integer from 0 to 1000");
}

}  // namespace
}  // namespace sluice::wire
