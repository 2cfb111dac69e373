// What the emulated NVML says about a machine that others use.
#include <gtest/gtest.h>
#include <stdlib.h>
#include <unistd.h>

#include <filesystem>
#include <string>
#include <vector>

#include "abi/nvml_abi.h"
#include "tests/emulator/device_memory.h"
#include "tests/emulator/health.h"
#include "tests/emulator/identity.h"
#include "tests/support/emulated_machine.h"

namespace sluice::emulator {
namespace {
class NvmlTest : public MachineFixture {
 protected:
  ~NvmlTest() override { nvmlShutdown(); }
  void start(const char* settings) {
    machine_ = open(settings);
    ASSERT_NE(machine_, nullptr);
    ASSERT_EQ(nvmlInit_v2(), NVML_SUCCESS);
  }
  // This process as a client of device 0.
  std::uint32_t join() {
    const std::uint32_t me = machine_->join(1000);
    Machine::Lock lock(*machine_);
    lock->processes[me].client[0] =
        lock->devices[0].add_client(static_cast<std::uint32_t>(getpid()), 1000);
    return me;
  }
  static nvmlDevice_t device(unsigned index) {
    nvmlDevice_t device = nullptr;
    EXPECT_EQ(nvmlDeviceGetHandleByIndex_v2(index, &device), NVML_SUCCESS);
    return device;
  }

  std::unique_ptr<Machine> machine_;
};

TEST_F(NvmlTest, NothingWorksBeforeInit) {
  unsigned count = 0;
  EXPECT_EQ(nvmlDeviceGetCount_v2(&count), NVML_ERROR_UNINITIALIZED);
  EXPECT_EQ(nvmlShutdown(), NVML_ERROR_UNINITIALIZED);
}

TEST_F(NvmlTest, DevicesAreFoundByNumberAndUuid) {
  start("devices=2 clock=virtual");
  unsigned count = 0, index = 0;
  char uuid[NVML_DEVICE_UUID_BUFFER_SIZE];
  EXPECT_EQ(nvmlDeviceGetCount_v2(&count), NVML_SUCCESS);
  EXPECT_EQ(count, 2U);
  EXPECT_EQ(nvmlDeviceGetUUID(device(1), uuid, sizeof uuid), NVML_SUCCESS);
  EXPECT_EQ(uuid, uuid_text(1)) << "as the driver has it";
  nvmlDevice_t found = nullptr;
  EXPECT_EQ(nvmlDeviceGetHandleByPciBusId_v2("0000:02:00.0", &found), NVML_SUCCESS);
  EXPECT_EQ(found, device(1));
  EXPECT_EQ(nvmlDeviceGetHandleByPciBusId_v2("0000:03:00.0", &found), NVML_ERROR_NOT_FOUND);
  EXPECT_EQ(nvmlDeviceGetHandleByUUID(uuid, &found), NVML_SUCCESS);
  EXPECT_EQ(nvmlDeviceGetIndex(found, &index), NVML_SUCCESS);
  EXPECT_EQ(index, 1U);
  EXPECT_EQ(nvmlDeviceGetHandleByIndex_v2(2, &found), NVML_ERROR_INVALID_ARGUMENT);
  EXPECT_EQ(nvmlDeviceGetHandleByUUID("GPU-none", &found), NVML_ERROR_NOT_FOUND);
  EXPECT_EQ(nvmlDeviceGetUUID(device(1), uuid, 10), NVML_ERROR_INSUFFICIENT_SIZE);
}

TEST_F(NvmlTest, MemoryAndProcesses) {
  start("memory_mib=1024 clock=virtual");
  const std::uint32_t me = join();
  {
    Machine::Lock lock(*machine_);
    allocate(*lock, 0, me, 100 * kMib);
  }
  nvmlMemory_t memory{};
  EXPECT_EQ(nvmlDeviceGetMemoryInfo(device(0), &memory), NVML_SUCCESS);
  EXPECT_EQ(memory.used, 100 * kMib);
  EXPECT_EQ(memory.free, 924 * kMib);
  nvmlMemory_v2_t second{};
  EXPECT_EQ(nvmlDeviceGetMemoryInfo_v2(device(0), &second), NVML_ERROR_ARGUMENT_VERSION_MISMATCH);
  second.version = nvmlMemory_v2;
  EXPECT_EQ(nvmlDeviceGetMemoryInfo_v2(device(0), &second), NVML_SUCCESS);
  EXPECT_EQ(second.used, 100 * kMib);

  unsigned count = 0;
  EXPECT_EQ(nvmlDeviceGetComputeRunningProcesses_v3(device(0), &count, nullptr),
            NVML_ERROR_INSUFFICIENT_SIZE);
  ASSERT_EQ(count, 1U);
  nvmlProcessInfo_t process{};
  EXPECT_EQ(nvmlDeviceGetComputeRunningProcesses_v3(device(0), &count, &process), NVML_SUCCESS);
  EXPECT_EQ(process.pid, static_cast<unsigned>(getpid()));
  EXPECT_EQ(process.usedGpuMemory, 100 * kMib);
  nvmlProcessInfo_v1_t older{};
  EXPECT_EQ(nvmlDeviceGetComputeRunningProcesses(device(0), &count, &older), NVML_SUCCESS);
  EXPECT_EQ(older.pid, process.pid);
  EXPECT_EQ(nvmlDeviceGetMPSComputeRunningProcesses_v3(device(0), &count, nullptr), NVML_SUCCESS);
  EXPECT_EQ(count, 0U);
}

TEST_F(NvmlTest, UtilizationIsOfTheLastPeriod) {
  start("sms=8 clock=virtual");
  join();
  nvmlUtilization_t busy{};
  EXPECT_EQ(nvmlDeviceGetUtilizationRates(device(0), &busy), NVML_SUCCESS);
  {
    Machine::Lock lock(*machine_);
    DeviceModel& model = lock->devices[0];
    model.launch(model.open_stream(0, 0, StreamKind::kNonBlocking),
                 {.blocks = 8, .wave_ns = 50'000'000});
  }
  machine_->sleep_until(200'000'000);
  EXPECT_EQ(nvmlDeviceGetUtilizationRates(device(0), &busy), NVML_SUCCESS);
  EXPECT_EQ(busy.gpu, 25U);
}

TEST_F(NvmlTest, OccupancyIsOfTheTimeBetweenTwoSamples) {
  start("sms=8 clock=virtual");
  join();
  nvmlGpmSample_t before = nullptr, now = nullptr;
  ASSERT_EQ(nvmlGpmSampleAlloc(&before), NVML_SUCCESS);
  ASSERT_EQ(nvmlGpmSampleAlloc(&now), NVML_SUCCESS);
  nvmlGpmMetricsGet_t asked{.version = NVML_GPM_METRICS_GET_VERSION,
                            .numMetrics = 2,
                            .sample1 = before,
                            .sample2 = now,
                            .metrics = {{.metricId = NVML_GPM_METRIC_SM_OCCUPANCY}, {}}};
  EXPECT_EQ(nvmlGpmMetricsGet(&asked), NVML_ERROR_INVALID_ARGUMENT) << "no samples";
  EXPECT_EQ(nvmlGpmSampleGet(device(0), before), NVML_SUCCESS);
  {
    Machine::Lock lock(*machine_);
    DeviceModel& model = lock->devices[0];
    model.launch(model.open_stream(0, 0, StreamKind::kNonBlocking),
                 {.blocks = 4, .wave_ns = 50'000'000});
  }
  machine_->sleep_until(200'000'000);
  EXPECT_EQ(nvmlGpmSampleGet(device(0), now), NVML_SUCCESS);
  EXPECT_EQ(nvmlGpmMetricsGet(&asked), NVML_SUCCESS);
  EXPECT_EQ(asked.metrics[0].nvmlReturn, NVML_SUCCESS);
  EXPECT_NEAR(asked.metrics[0].value, 12.5, 0.01) << "half of the SMs, a quarter of the time";
  EXPECT_EQ(asked.metrics[1].nvmlReturn, NVML_ERROR_NOT_SUPPORTED) << "metric 0";
  for (const nvmlGpmSample_t sample : {before, now}) nvmlGpmSampleFree(sample);
}

TEST_F(NvmlTest, ProcessesAreAccountedForSinceTheLastSample) {
  start("sms=8 clock=virtual");
  join();
  nvmlProcessUtilizationSample_t sample{};
  unsigned count = 0;
  EXPECT_EQ(nvmlDeviceGetProcessUtilization(device(0), nullptr, &count, 0), NVML_ERROR_NOT_FOUND);
  {
    Machine::Lock lock(*machine_);
    DeviceModel& model = lock->devices[0];
    model.launch(model.open_stream(0, 0, StreamKind::kNonBlocking),
                 {.blocks = 8, .wave_ns = 150'000'000});
  }
  machine_->sleep_until(200'000'000);
  EXPECT_EQ(nvmlDeviceGetProcessUtilization(device(0), nullptr, &count, 0),
            NVML_ERROR_INSUFFICIENT_SIZE);
  ASSERT_EQ(count, 1U);
  ASSERT_EQ(nvmlDeviceGetProcessUtilization(device(0), &sample, &count, 0), NVML_SUCCESS);
  EXPECT_EQ(sample.pid, static_cast<unsigned>(getpid()));
  EXPECT_EQ(sample.smUtil, 75U);
  EXPECT_EQ(sample.timeStamp, 200'000U);
  machine_->sleep_until(400'000'000);
  EXPECT_EQ(nvmlDeviceGetProcessUtilization(device(0), nullptr, &count, sample.timeStamp),
            NVML_ERROR_NOT_FOUND);
}

TEST_F(NvmlTest, ClientsOfMpsAreNotAccountedFor) {
  start("sms=8 clock=virtual shared=1");
  join();
  {
    Machine::Lock lock(*machine_);
    DeviceModel& model = lock->devices[0];
    model.launch(model.open_stream(0, 0, StreamKind::kNonBlocking),
                 {.blocks = 8, .wave_ns = 150'000'000});
  }
  unsigned count = 0;
  EXPECT_EQ(nvmlDeviceGetProcessUtilization(device(0), nullptr, &count, 0), NVML_ERROR_NOT_FOUND);
  machine_->sleep_until(200'000'000);
  EXPECT_EQ(nvmlDeviceGetProcessUtilization(device(0), nullptr, &count, 0), NVML_ERROR_NOT_FOUND);
}

TEST_F(NvmlTest, LinksAreOfTheMachinesMaking) {
  start("devices=3 nvlinks=2 clock=virtual");
  nvmlGpuTopologyLevel_t level{};
  EXPECT_EQ(nvmlDeviceGetTopologyCommonAncestor(device(0), device(1), &level), NVML_SUCCESS);
  EXPECT_EQ(level, NVML_TOPOLOGY_SINGLE);
  EXPECT_EQ(nvmlDeviceGetTopologyCommonAncestor(device(0), device(2), &level), NVML_SUCCESS);
  EXPECT_EQ(level, NVML_TOPOLOGY_HOSTBRIDGE);
  EXPECT_EQ(nvmlDeviceGetTopologyCommonAncestor(device(1), device(1), &level),
            NVML_ERROR_INVALID_ARGUMENT);

  std::vector<std::string> ends;
  for (unsigned link = 0; link < NVML_NVLINK_MAX_LINKS; ++link) {
    nvmlPciInfo_t pci{};
    if (nvmlDeviceGetNvLinkRemotePciInfo_v2(device(1), link, &pci) == NVML_SUCCESS)
      ends.emplace_back(pci.busId);
  }
  const std::string first = "00000000:01:00.0", third = "00000000:03:00.0";
  EXPECT_EQ(ends, (std::vector<std::string>{first, first, third, third}));
  nvmlPciInfo_t pci{};
  EXPECT_EQ(nvmlDeviceGetPciInfo_v3(device(0), &pci), NVML_SUCCESS);
  EXPECT_EQ(pci.busId, first) << "as others have it";
  nvmlEnableState_t state{};
  EXPECT_EQ(nvmlDeviceGetNvLinkState(device(1), NVML_NVLINK_MAX_LINKS, &state),
            NVML_ERROR_INVALID_ARGUMENT);
  EXPECT_EQ(nvmlDeviceGetNvLinkState(device(1), 4, &state), NVML_ERROR_NOT_SUPPORTED);
}

TEST_F(NvmlTest, EventsComeToThoseWhoAskedForThem) {
  start("devices=2 clock=virtual");
  nvmlEventSet_t set = nullptr;
  nvmlEventData_t data{};
  ASSERT_EQ(nvmlEventSetCreate(&set), NVML_SUCCESS);
  EXPECT_EQ(nvmlDeviceRegisterEvents(device(1), nvmlEventTypeXidCriticalError, set), NVML_SUCCESS);
  EXPECT_EQ(nvmlEventSetWait_v2(set, &data, 1), NVML_ERROR_TIMEOUT);
  {
    Machine::Lock lock(*machine_);
    raise_xid(*lock, 0, 79);
    raise_ecc_error(*lock, 1);
    raise_xid(*lock, 1, 48);
  }
  EXPECT_EQ(nvmlEventSetWait_v2(set, &data, 0), NVML_SUCCESS);
  EXPECT_EQ(data.device, device(1));
  EXPECT_EQ(data.eventType, nvmlEventTypeXidCriticalError);
  EXPECT_EQ(data.eventData, 48U);
  EXPECT_EQ(nvmlEventSetWait_v2(set, &data, 0), NVML_ERROR_TIMEOUT);
  EXPECT_EQ(nvmlEventSetFree(set), NVML_SUCCESS);

  unsigned long long errors = 0;
  EXPECT_EQ(nvmlDeviceGetTotalEccErrors(device(1), NVML_MEMORY_ERROR_TYPE_UNCORRECTED,
                                        NVML_VOLATILE_ECC, &errors),
            NVML_SUCCESS);
  EXPECT_EQ(errors, 1U);
}

TEST_F(NvmlTest, ALostDeviceSaysNothingElse) {
  start("devices=2 clock=virtual");
  const nvmlDevice_t lost = device(0);
  {
    Machine::Lock lock(*machine_);
    lose(*lock, 0);
  }
  nvmlMemory_t memory{};
  EXPECT_EQ(nvmlDeviceGetMemoryInfo(lost, &memory), NVML_ERROR_GPU_IS_LOST);
  EXPECT_EQ(nvmlDeviceGetMemoryInfo(device(1), &memory), NVML_SUCCESS);
}

}  // namespace
}  // namespace sluice::emulator
