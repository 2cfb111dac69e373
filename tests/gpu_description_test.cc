// The node's NVML loader on emulated GPUs: its description of a machine's GPUs.
#include <gmock/gmock.h>

#include "gpu/nvml.h"
#include "tests/emulator/identity.h"
#include "tests/support/emulated_gpus.h"

namespace sluice::node {
namespace {

using emulator::uuid_text;

using NvmlLoader = EmulatedGpus;

TEST_F(NvmlLoader, TellsWhatTheGpusAre) {
  make("devices=2 sms=132 memory_mib=1024");
  const auto nvml = Nvml::open(SLUICE_EMULATED_NVML);
  ASSERT_TRUE(nvml.ok()) << nvml.error().message;
  const std::vector<Device> gpus = (*nvml)->gpus();
  ASSERT_EQ(gpus.size(), 2U);
  const Device& gpu = gpus[1];
  EXPECT_EQ(gpu.kind, DeviceKind::kCuda);
  EXPECT_EQ(gpu.id, uuid_text(1));
  EXPECT_EQ(gpu.uuid, uuid_text(1));
  EXPECT_EQ(gpu.model, "Sluice emulated GPU");
  EXPECT_EQ(gpu.bus, "00000000:02:00.0");
  EXPECT_EQ(gpu.compute_capability, 90);
  EXPECT_EQ(gpu.sms, 132);
  EXPECT_EQ(gpu.memory, Bytes{1} << 30);
  EXPECT_TRUE(gpu.mps);
  EXPECT_FALSE(gpu.can_resize_sm);
  EXPECT_EQ(gpu.mig, MigMode::kOff);
  EXPECT_FALSE(gpu.drained);
  EXPECT_EQ(gpu.fault, "");
}

TEST_F(NvmlLoader, OneThatIsSplitIsSetApartAndSound) {
  make("devices=1 mig=1");
  const auto nvml = Nvml::open(SLUICE_EMULATED_NVML);
  ASSERT_TRUE(nvml.ok()) << nvml.error().message;
  const Device gpu = (*nvml)->gpus().at(0);
  EXPECT_EQ(gpu.mig, MigMode::kOn);
  EXPECT_TRUE(gpu.drained);
  EXPECT_FALSE(gpu.mps);
  EXPECT_EQ(gpu.fault, "");
  EXPECT_EQ(gpu.set_apart, "it is split by MIG, and only whole GPUs are given out");
}

TEST_F(NvmlLoader, TellsHowTheyAreJoined) {
  make("devices=3 nvlinks=4");
  const auto nvml = Nvml::open(SLUICE_EMULATED_NVML);
  ASSERT_TRUE(nvml.ok()) << nvml.error().message;
  const std::vector<Device> gpus = (*nvml)->gpus();
  ASSERT_EQ(gpus.size(), 3U);
  EXPECT_EQ(gpus[0].links, (std::vector<DeviceLink>{{uuid_text(1), 4, PciePath::kSwitch},
                                                    {uuid_text(2), 4, PciePath::kHostBridge}}));
  EXPECT_EQ(gpus[2].links, (std::vector<DeviceLink>{{uuid_text(0), 4, PciePath::kHostBridge},
                                                    {uuid_text(1), 4, PciePath::kHostBridge}}));
}

TEST_F(NvmlLoader, SaysThatNoDriverIsLoaded) {
  unsetenv("SLUICE_EMULATED_GPU");
  const auto nvml = Nvml::open(SLUICE_EMULATED_NVML);
  ASSERT_FALSE(nvml.ok());
  EXPECT_EQ(nvml.error().kind, ErrorKind::kUnavailable);
  EXPECT_THAT(nvml.error().message, testing::HasSubstr("nvmlInit: NVML error 9"));
}

}  // namespace
}  // namespace sluice::node
