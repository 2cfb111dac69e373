#include "node/cpu_devices.h"

#include <gtest/gtest.h>

#include <numeric>
#include <set>

namespace sluice::node {
namespace {

constexpr Bytes kGiB = Bytes{1} << 30;

Machine machine_of(int cores, Bytes memory = 16 * kGiB) {
  Machine m{.node = "here", .cpu_model = "test", .memory = memory};
  m.cores.resize(static_cast<size_t>(cores));
  std::iota(m.cores.begin(), m.cores.end(), 0);
  return m;
}

CpuSplit split(int cores, int devices = 0) {
  return *split_cpu(machine_of(cores), {.devices = devices});
}

TEST(CpuDevices, TheTable) {
  struct Row {
    int cores, asked;  // --devices; 0: default
    int devices, millicores, quantum, reserve;
  };
  for (const Row& row : std::vector<Row>{
           {1, 0, 4, 150, 1000, 400},  // a reserve of 0.4 core, whatever the machine
           {2, 0, 4, 400, 1000, 400},
           {2, 1, 1, 1000, 1000, 1000},
           {2, 2, 2, 800, 1000, 400},
           {4, 0, 4, 800, 1000, 800},
           {4, 3, 3, 1000, 1000, 1000},
           {5, 0, 4, 1000, 1000, 1000},
           {8, 0, 6, 1000, 1000, 2000},  // six single cores rather than two left over
           {16, 0, 6, 2000, 500, 4000},  // three cores are no whole permille: two each
           {32, 0, 5, 5000, 200, 7000},
           {64, 0, 5, 10000, 100, 14000},
           {64, 2, 2, 25000, 40, 14000},
           {128, 0, 4, 25000, 40, 28000},
           {3, 20, 20, 120, 1000, 600},
       }) {
    const CpuSplit s = split(row.cores, row.asked);
    SCOPED_TRACE(std::to_string(row.cores) + " cores, " + std::to_string(row.asked) + " devices");
    EXPECT_EQ(s.devices.size(), static_cast<size_t>(row.devices));
    EXPECT_EQ(s.devices[0].device.millicores, row.millicores);
    EXPECT_EQ(s.devices[0].device.sm_quantum.permille, row.quantum);
    EXPECT_EQ(s.reserve_millicores, row.reserve);
  }
}

TEST(CpuDevices, EveryMachineKeepsItsReserveAndSharesNoCore) {
  for (int cores = 1; cores <= 256; ++cores)
    for (const int asked : {0, 1, 2, 3, 7}) {
      const CpuSplit s = split(cores, asked);
      SCOPED_TRACE(std::to_string(cores) + " cores, " + std::to_string(asked) + " devices");
      EXPECT_GE(s.devices.size(), asked == 0 ? 4u : static_cast<size_t>(asked));
      EXPECT_GE(s.reserve_millicores, std::max(400, cores * 200));
      int total = s.reserve_millicores;
      std::set<int> seen(s.reserve.begin(), s.reserve.end());
      size_t listed = s.reserve.size();
      for (const LocalDevice& d : s.devices) {
        total += d.device.millicores;
        EXPECT_EQ(1000 % d.device.sm_quantum.permille, 0);
        EXPECT_EQ(d.cores.size(), static_cast<size_t>(d.device.millicores / 1000));
        seen.insert(d.cores.begin(), d.cores.end());
        listed += d.cores.size();
      }
      EXPECT_EQ(total, cores * 1000);
      EXPECT_EQ(seen.size(), listed);
    }
}

TEST(CpuDevices, MemoryAndPriceAreSplitToo) {
  const CpuSplit s = *split_cpu(machine_of(8, 10 * kGiB), {.price_per_core_hour = 0.5});
  for (const LocalDevice& d : s.devices) {
    EXPECT_EQ(d.device.memory, 8 * kGiB / 6 / (1 << 20) * (1 << 20));
    EXPECT_DOUBLE_EQ(d.device.price_per_hour, 0.5);
  }
}

TEST(CpuDevices, OnlyCoresThatWeMayUse) {
  Machine m = machine_of(0);
  m.cores = {3, 5, 6, 7, 8, 9};
  const CpuSplit s = *split_cpu(m, {});
  EXPECT_EQ(s.reserve, (std::vector{3, 5}));
  EXPECT_EQ(s.devices[0].cores, std::vector{6});
  EXPECT_EQ(s.devices[3].cores, std::vector{9});
}

TEST(CpuDevices, RefusesWhatCannotBe) {
  EXPECT_FALSE(split_cpu(machine_of(0), {}).ok());
  EXPECT_FALSE(split_cpu(machine_of(4), {.devices = -1}).ok());
  EXPECT_EQ(split_cpu(machine_of(1), {.devices = 100}).error().message,
            "devices: 100 would each have less than 10 of the machine's 600 millicores");
}

TEST(CpuDevices, ASliceHasTheCoresOfItsRectangle) {
  const CpuSplit s = split(64);  // ten cores each, from 14
  EXPECT_EQ(cores_of(s.devices[0], {200}, {300}), (std::vector{16, 17, 18}));
  EXPECT_EQ(threads_of(s.devices[0].device, {300}), 3);
  EXPECT_EQ(threads_of(split(2).devices[0].device, kWhole), 1);
}

CpuSettings named(const std::string& text) {
  CpuSettings settings;
  const Result<void> read = parse_cpu_devices(text, settings);
  EXPECT_TRUE(read.ok()) << read.error().message;
  return settings;
}

TEST(CpuDevices, NamedTypesHaveTheirSizeAndName) {
  const CpuSplit s = *split_cpu(machine_of(2), named("big=1x740m,little=2x400m"));
  ASSERT_EQ(s.devices.size(), 3U);
  EXPECT_EQ(s.reserve_millicores, 2000 - 740 - 2 * 400);
  EXPECT_EQ(type_of(s.devices[0].device).name, "big");
  EXPECT_EQ(s.devices[0].device.millicores, 740);
  EXPECT_EQ(s.devices[2].device.id, "cpu2");
  EXPECT_FALSE(alike(s.devices[0].device, s.devices[1].device));
  EXPECT_TRUE(alike(s.devices[1].device, s.devices[2].device));
  EXPECT_DOUBLE_EQ(s.devices[1].device.price_per_hour, 0.04 * 0.4);
}

TEST(CpuDevices, NamedTypesOfWholeCoresHaveCoresOfTheirOwn) {
  const CpuSplit s = *split_cpu(machine_of(8), named("big=1x4000m,little=2x1000m"));
  EXPECT_EQ(s.reserve, (std::vector<int>{0, 1}));
  EXPECT_EQ(s.devices[0].cores, (std::vector<int>{2, 3, 4, 5}));
  EXPECT_EQ(s.devices[2].cores, (std::vector<int>{7}));
}

TEST(CpuDevices, WhatNamesNoDevicesIsRefusedWithWhatIsAllowed) {
  for (const char* text :
       {"", "x", "-1", "2000", "big", "big=", "big=1x", "big=1x740", "big=0x740m", "=1x740m",
        "big=1x740m,", "big 1=1x740m", "big=99999x1m", "big=1x-3m"}) {
    CpuSettings settings;
    const Result<void> read = parse_cpu_devices(text, settings);
    ASSERT_FALSE(read.ok()) << text;
    EXPECT_TRUE(read.error().message.starts_with("devices: ")) << read.error().message;
  }
  const auto refused = [](const std::string& text) {
    return split_cpu(machine_of(2), named(text)).error().message;
  };
  EXPECT_EQ(refused("big=2x900m"),
            "devices: they take 1800 millicores; the machine has 1600 beside the platform's own");
  EXPECT_EQ(refused("a=1x100m,a=1x200m"), "devices: a stands twice");
  EXPECT_NE(refused("a=1x1000m,b=1x200m").find("b: 200m: all types must be"), std::string::npos);
  EXPECT_NE(refused("a=1x3m").find("from 10m"), std::string::npos);
}

}  // namespace
}  // namespace sluice::node
