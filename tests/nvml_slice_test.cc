// An unmodified NVML program under a slice, on emulated devices: by a real permit server it sees
// the slice's part of the slice's device, and no other slice's processes.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "abi/nvml_abi.h"
#include "tests/emulator/identity.h"
#include "tests/support/emulated_gpus.h"
#include "tests/support/eventually.h"
#include "tests/support/led_program.h"
#include "tests/support/memory_daemon.h"

namespace sluice {
namespace {

using nlohmann::json;

constexpr Bytes kMib = Bytes{1} << 20;
constexpr int kDevice = 1024, kLimit = 256;  // MiB

class NvmlSlice : public EmulatedGpus {
 protected:
  NvmlSlice() {
    make("devices=2 memory_mib=1024");
    daemon_.start(kLimit * kMib);
    // This process is another tenant, of all devices.
    const uint32_t me = machine_->join(1000);
    const emulator::Machine::Lock lock(*machine_);
    for (unsigned d = 0; d < 2; ++d)
      lock->processes[me].client[d] =
          lock->devices[d].add_client(static_cast<uint32_t>(getpid()), 1000);
  }
  std::map<std::string, std::string> environment(const std::string& preloaded,
                                                 bool in_slice = true) const {
    std::map<std::string, std::string> e{{"LD_PRELOAD", preloaded},
                                         {"LD_LIBRARY_PATH", SLUICE_EMULATED_DRIVER_FOLDER},
                                         {"SLUICE_EMULATED_GPU", folder_ + "/gpu"}};
    if (in_slice) {
      e["SLUICE_PERMIT_SOCKET"] = daemon_.socket();
      e["SLUICE_VISIBLE_DEVICES"] = e["CUDA_VISIBLE_DEVICES"] = emulator::uuid_text(1);
    }
    return e;
  }
  // Reads device 0, which is not the slice's.
  std::vector<std::string> reader() const {
    return {SLUICE_NVML_READER, emulator::uuid_text(0), emulator::bus_text(0)};
  }
  static json look(LedProgram& program) { return json::parse(program.ask("look")); }
  static json memory(int used, int limit = kLimit) { return {limit, used, limit - used}; }

  MemoryDaemon daemon_{folder_};
};

TEST_F(NvmlSlice, AProgramSeesTheSlicesDeviceAloneAndItsPart) {
  LedProgram program(reader(), environment(SLUICE_NVML_HOOK));
  const json seen = look(program);
  EXPECT_EQ(seen["result"], NVML_SUCCESS);
  ASSERT_EQ(seen["devices"].size(), 1u);
  const json& device = seen["devices"][0];
  EXPECT_EQ(device["uuid"], emulator::uuid_text(1));
  EXPECT_EQ(device["index"], 0);
  EXPECT_EQ(device["memory"], memory(0));
  EXPECT_EQ(device["second"], memory(0));
  EXPECT_EQ(seen["beyond"], NVML_ERROR_INVALID_ARGUMENT);
  EXPECT_EQ(seen["by_uuid"], NVML_ERROR_NOT_FOUND);
  EXPECT_EQ(seen["by_bus"], NVML_ERROR_NOT_FOUND);
  EXPECT_EQ(daemon_.look().holders, 0) << "who looks holds nothing";
}

TEST_F(NvmlSlice, ItSeesWhatItsSlicesProcessesHoldAndNoOther) {
  LedProgram cuda({SLUICE_CUDA_MEMORY}, environment(SLUICE_CUDA_HOOK));
  EXPECT_EQ(cuda.next(), "0 \n");
  EXPECT_EQ(cuda.ask("plain 64"), "0 0\n");
  LedProgram program(reader(), environment(SLUICE_NVML_HOOK));
  const json device = look(program)["devices"][0];
  EXPECT_EQ(device["processes"], json{cuda.pid()});
  EXPECT_EQ(device["older"], json{cuda.pid()});
  EXPECT_EQ(device["samples"], json::array());
  EXPECT_EQ(device["memory"], memory(static_cast<int>(daemon_.look().held / kMib)));
  EXPECT_GE(device["memory"][1], 64);
}

TEST_F(NvmlSlice, AChangedLimitIsSeenAtOnce) {
  LedProgram program(reader(), environment(SLUICE_NVML_HOOK));
  EXPECT_EQ(look(program)["devices"][0]["memory"], memory(0));
  daemon_.set_limit(512 * kMib);
  EXPECT_EQ(look(program)["devices"][0]["memory"], memory(0, 512));
  daemon_.set_limit(4096 * kMib);
  EXPECT_EQ(look(program)["devices"][0]["memory"], memory(0, kDevice)) << "the device is smaller";
}

// The difference of the two must not wrap around.
TEST_F(NvmlSlice, NoMoreIsUsedThanThereIs) {
  LedProgram cuda({SLUICE_CUDA_MEMORY}, environment(SLUICE_CUDA_HOOK));
  cuda.next();
  EXPECT_EQ(cuda.ask("plain 64"), "0 0\n");
  daemon_.set_limit(32 * kMib);
  LedProgram program(reader(), environment(SLUICE_NVML_HOOK));
  EXPECT_EQ(look(program)["devices"][0]["memory"], memory(32, 32));
}

TEST_F(NvmlSlice, WhileThereIsNoDaemonItSeesWhatItSawLast) {
  LedProgram program(reader(), environment(SLUICE_NVML_HOOK));
  EXPECT_EQ(look(program)["devices"][0]["memory"], memory(0));
  daemon_.stop();
  const json alone = look(program);
  ASSERT_EQ(alone["devices"].size(), 1u);
  EXPECT_EQ(alone["devices"][0]["memory"], memory(0));
  EXPECT_EQ(alone["devices"][0]["processes"], json::array());
  daemon_.start(kLimit * kMib);
  daemon_.set_limit(128 * kMib);
  EXPECT_EQ(look(program)["devices"][0]["memory"], memory(0, 128));
}

TEST_F(NvmlSlice, WhereMemoryIsNotCountedItSeesTheDevices) {
  daemon_.start(0);
  LedProgram program(reader(), environment(SLUICE_NVML_HOOK));
  const json seen = look(program);
  ASSERT_EQ(seen["devices"].size(), 1u);
  EXPECT_EQ(seen["devices"][0]["memory"], memory(0, kDevice));
  EXPECT_EQ(seen["devices"][0]["processes"], json::array()) << "still none of others";
}

TEST_F(NvmlSlice, OutsideOfASliceItSeesAllThereIs) {
  LedProgram plain(reader(), environment("", false));
  LedProgram hooked(reader(), environment(SLUICE_NVML_HOOK, false));
  const json seen = look(plain);
  EXPECT_EQ(look(hooked), seen);
  ASSERT_EQ(seen["devices"].size(), 2u);
  EXPECT_EQ(seen["devices"][0]["processes"], json{getpid()});
  EXPECT_EQ(seen["by_uuid"], NVML_SUCCESS);
}

}  // namespace
}  // namespace sluice
