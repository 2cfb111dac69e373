#include "model/device.h"

#include <gtest/gtest.h>

namespace sluice {
namespace {

TEST(DeviceType, IsTheSizeOfACpuDeviceAndTheModelOfAGpu) {
  Device cpu{.id = "cpu0", .node = "a", .model = "EPYC", .millicores = 500};
  EXPECT_EQ(type_of(cpu).name, "cpu/500m");
  Device elsewhere = cpu;
  elsewhere.id = "cpu7", elsewhere.node = "b", elsewhere.drained = true,
  elsewhere.price_per_hour = 1;
  EXPECT_EQ(type_of(elsewhere), type_of(cpu)) << "where a device is and its state are not its type";
  cpu.millicores = 2000;
  EXPECT_EQ(type_of(cpu).name, "cpu/2000m");
  const Device gpu{.id = "cuda0", .kind = DeviceKind::kCuda, .model = "NVIDIA A100-SXM4-40GB"};
  EXPECT_EQ(type_of(gpu).name, "NVIDIA A100-SXM4-40GB");
  EXPECT_EQ(type_of(Device{.id = "cuda1", .kind = DeviceKind::kCuda}).name, "cuda");
}

TEST(DeviceType, DevicesOfOneTypeAndWindowAreAlike) {
  const Device half{.id = "cpu0", .millicores = 500};
  Device other = half;
  other.id = "cpu1", other.model = "EPYC", other.drained = true;
  Device quick = half;
  quick.window = Millis(5);
  const Device whole{.id = "cpu2", .millicores = 1000};
  const Device a100{.id = "cuda0", .kind = DeviceKind::kCuda, .model = "A100"};
  const Device t4{.id = "cuda1", .kind = DeviceKind::kCuda, .model = "T4"};
  const std::vector<Device> all{half, other, quick, whole, a100, t4, a100};
  for (const Device& a : all)
    for (const Device& b : all)
      EXPECT_EQ(alike(a, b), type_of(a) == type_of(b) && a.window == b.window) << a.id << b.id;
  std::vector<DeviceId> ids;
  for (const Device* d : one_of_each_type(all)) ids.push_back(d->id);
  EXPECT_EQ(ids, (std::vector<DeviceId>{"cpu0", "cpu0", "cpu2", "cuda0", "cuda1"}));
}

}  // namespace
}  // namespace sluice
