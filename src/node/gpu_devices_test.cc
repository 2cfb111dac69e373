// Which GPU has which id, and which stays cordoned, over restarts of the daemon.
#include "node/gpu_devices.h"

#include <gtest/gtest.h>

namespace sluice::node {
namespace {

Device gpu(const std::string& uuid, std::vector<DeviceLink> links = {}) {
  return {.id = uuid, .kind = DeviceKind::kCuda, .uuid = uuid, .links = std::move(links)};
}

std::vector<LocalDevice> merge(const std::vector<LocalDevice>& known,
                               const std::vector<Device>& found,
                               const std::set<DeviceId>& held = {}) {
  return merge_gpus(known, found, held, "n", {.price_per_hour = 3});
}

// "cuda0=GPU-a cuda1=GPU-b!drained: why"
std::string text(const std::vector<LocalDevice>& devices) {
  std::string out;
  for (const auto& [d, cores] : devices) {
    out += (out.empty() ? "" : " ") + d.id + "=" + d.uuid;
    if (d.drained) out += "!drained";
    if (!d.fault.empty()) out += ": " + d.fault;
  }
  return out;
}

TEST(GpuDevices, AreNumberedAsTheyAreFound) {
  const auto devices = merge({}, {gpu("GPU-b"), gpu("GPU-a")});
  EXPECT_EQ(text(devices), "cuda0=GPU-b cuda1=GPU-a");
  EXPECT_EQ(devices[0].device.node, "n");
  EXPECT_EQ(devices[0].device.price_per_hour, 3);
}

TEST(GpuDevices, KeepTheirIdsInAnyOrder) {
  const auto before = merge({}, {gpu("GPU-a"), gpu("GPU-b")});
  EXPECT_EQ(text(merge(before, {gpu("GPU-c"), gpu("GPU-b"), gpu("GPU-a")})),
            "cuda2=GPU-c cuda1=GPU-b cuda0=GPU-a");
}

TEST(GpuDevices, CpusAmongTheKnownAreNoneOfTheirs) {
  EXPECT_EQ(text(merge({{{.id = "cpu0"}, {0}}}, {gpu("GPU-a")})), "cuda0=GPU-a");
}

TEST(GpuDevices, LinksLeadToIds) {
  const auto devices = merge({}, {gpu("GPU-b", {{"GPU-a", 4}}), gpu("GPU-a", {{"GPU-b", 4}})});
  EXPECT_EQ(devices[0].device.links, (std::vector<DeviceLink>{{"cuda1", 4}}));
  EXPECT_EQ(devices[1].device.links, (std::vector<DeviceLink>{{"cuda0", 4}}));
}

TEST(GpuDevices, StayDrainedWithTheReason) {
  auto known = merge({}, {gpu("GPU-a"), gpu("GPU-b")});
  known[0].device.drained = true;
  known[1].device.drained = true;
  known[1].device.fault = "Xid 79";
  EXPECT_EQ(text(merge(known, {gpu("GPU-a"), gpu("GPU-b")})),
            "cuda0=GPU-a!drained cuda1=GPU-b!drained: Xid 79");
}

TEST(GpuDevices, OneThatIsSetApartNoLongerIsNotDrainedNoLonger) {
  Device split = gpu("GPU-a");
  split.drained = true;
  split.set_apart = "it is split";
  const auto before = merge({}, {split});
  EXPECT_EQ(text(before), "cuda0=GPU-a!drained");
  EXPECT_EQ(text(merge(before, {gpu("GPU-a")})), "cuda0=GPU-a");
}

TEST(GpuDevices, OneThatIsGoneStaysWhileItIsHeld) {
  const auto before = merge({}, {gpu("GPU-a"), gpu("GPU-b")});
  const auto without = merge(before, {gpu("GPU-b")}, {"cuda0"});
  EXPECT_EQ(text(without), "cuda1=GPU-b cuda0=GPU-a!drained: NVML does not find it any more");
  EXPECT_EQ(text(merge(without, {gpu("GPU-a"), gpu("GPU-b")}, {"cuda0"})),
            "cuda0=GPU-a cuda1=GPU-b")
      << "it is back";
  EXPECT_EQ(text(merge(before, {gpu("GPU-b")})), "cuda1=GPU-b");
}

TEST(GpuDevices, OneThatWasDrainedBeforeItWasGoneIsDrainedWhenItIsBack) {
  auto known = merge({}, {gpu("GPU-a"), gpu("GPU-b")});
  known[0].device.drained = known[1].device.drained = true;
  known[1].device.fault = "Xid 79";
  const auto without = merge(known, {}, {"cuda0", "cuda1"});
  EXPECT_EQ(text(without), "cuda0=GPU-a!drained cuda1=GPU-b!drained: Xid 79");
  EXPECT_EQ(text(merge(without, {gpu("GPU-a"), gpu("GPU-b")}, {"cuda0", "cuda1"})), text(without));
}

TEST(GpuDevices, GiveOutWhatTheModelStoreLeavesOfTheirMemory) {
  Device large = gpu("GPU-a");
  large.memory = 100;
  const auto memory = [&](Bytes store, const std::vector<LocalDevice>& known,
                          const std::set<DeviceId>& held = {}) {
    return merge_gpus(known, {large}, held, "n", {.store = store})[0].device.memory;
  };
  EXPECT_EQ(memory(30, {}), 70);
  EXPECT_EQ(memory(300, {}), 0);
  const auto before = merge({}, {large});
  EXPECT_EQ(memory(30, before), 70);
  EXPECT_EQ(memory(30, before, {"cuda0"}), 100) << "that much may be promised already";
}

TEST(GpuDevices, UnderMpsTheyHoldPartsOfTheirSms) {
  Device able = gpu("GPU-a");
  able.mps = true;
  const GpuSettings with_mps{.mps = "/usr/bin/nvidia-cuda-mps-control"};
  const auto devices = merge_gpus({}, {able, gpu("GPU-old")}, {}, "n", with_mps);
  EXPECT_EQ(devices[0].device.sm_quantum, kMpsQuantum);
  EXPECT_EQ(devices[1].device.sm_quantum, kWhole);
  EXPECT_TRUE(goes_side_by_side(devices[0].device));
  EXPECT_FALSE(goes_side_by_side(devices[1].device));
  EXPECT_EQ(merge({}, {able})[0].device.sm_quantum, kWhole) << "nobody has asked for it";
}

TEST(GpuDevices, APartThatIsHeldStaysPossibleWithoutMps) {
  Device able = gpu("GPU-a");
  able.mps = true;
  const auto before = merge_gpus({}, {able}, {}, "n", {.mps = "/usr/bin/nvidia-cuda-mps-control"});
  EXPECT_EQ(merge(before, {able}, {"cuda0"})[0].device.sm_quantum, kMpsQuantum);
  EXPECT_TRUE(goes_side_by_side(merge(before, {able}, {"cuda0"})[0].device));
  EXPECT_FALSE(goes_side_by_side({.id = "cpu0", .sm_quantum = {100}})) << "a CPU has no MPS";
  EXPECT_EQ(merge(before, {able})[0].device.sm_quantum, kWhole);
}

}  // namespace
}  // namespace sluice::node
