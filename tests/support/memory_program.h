// Unmodified CUDA programs under the preloaded hook, on an emulated device, with a slice of its
// memory: each allocates as the test directs (cuda_memory.cc). The daemon's records are compared
// with the device's own account. For tests only; not thread-safe.
#pragma once

#include <gtest/gtest.h>

#include <filesystem>
#include <map>
#include <memory>
#include <sstream>
#include <string>

#include "abi/cuda_abi.h"
#include "tests/emulator/device_memory.h"
#include "tests/emulator/machine.h"
#include "tests/support/led_program.h"
#include "tests/support/memory_daemon.h"

namespace sluice {

namespace fs = std::filesystem;

constexpr Bytes kMib = Bytes{1} << 20;
constexpr Bytes kContext = 16;  // MiB
constexpr Bytes kDevice = 4096;

// A program's answer.
struct Answer {
  int result = -1;
  std::string word;       // the first of the rest
  Bytes numbers[3] = {};  // the words of the rest that are numbers
};

class Program : public LedProgram {
 public:
  explicit Program(const fs::path& folder, bool hooked = true)
      : LedProgram({SLUICE_CUDA_MEMORY}, environment(folder, hooked)) {
    EXPECT_EQ(next().result, CUDA_SUCCESS);
  }

  Answer ask(const std::string& line) {
    tell(line);
    return next();
  }
  Answer next() {
    const std::string line = LedProgram::next();
    Answer a;
    std::istringstream words(line);
    words >> a.result >> a.word;
    std::istringstream numbers(line);
    for (numbers >> a.result; Bytes & n : a.numbers) numbers >> n;
    return a;
  }
  int allocate(const std::string& kind, Bytes mib) {
    return ask(kind + " " + std::to_string(mib)).result;
  }
  // Captures the next graph, counted from 0, and instantiates it.
  void capture_graph(Bytes freed, Bytes left, const std::string& by = "flags") {
    ASSERT_EQ(ask("capture " + std::to_string(freed) + " " + std::to_string(left)).result, 0);
    ASSERT_EQ(ask("instantiate " + std::to_string(graphs_++) + " " + by).result, 0);
  }
  int launch(int graph) { return ask("launch " + std::to_string(graph)).result; }

 private:
  int graphs_ = 0;

  static std::map<std::string, std::string> environment(const fs::path& folder, bool hooked) {
    std::map<std::string, std::string> e{{"SLUICE_EMULATED_GPU", folder / "gpu"},
                                         {"SLUICE_PERMIT_SOCKET", folder / "permit.sock"},
                                         {"LD_LIBRARY_PATH", SLUICE_EMULATED_DRIVER_FOLDER}};
    if (hooked) e["LD_PRELOAD"] = SLUICE_CUDA_HOOK;
    return e;
  }
};

// The emulated device's own account, without delay.
class EmulatedAccount : public node::DeviceAccount {
 public:
  EmulatedAccount(const Clock& clock, emulator::Machine& machine)
      : clock_(clock), machine_(machine) {}

  std::optional<node::DeviceUse> latest(pid_t) const override { return std::nullopt; }
  std::optional<node::DeviceMemory> memory(pid_t pid) const override {
    const Time now = clock_.now();
    const emulator::Machine::Lock lock(machine_);
    uint64_t bytes = 0;
    for (uint32_t i = 0; i < emulator::kProcesses; ++i)
      if (lock->processes[i].used && lock->processes[i].pid == pid)
        bytes = emulator::memory_used_by(*lock, 0, i);
    return node::DeviceMemory{now, static_cast<Bytes>(bytes)};
  }

 private:
  const Clock& clock_;
  emulator::Machine& machine_;
};

class CudaMemory : public testing::Test {
 protected:
  CudaMemory() {
    fs::create_directories(folder_);
    emulator::MachineSpec spec;
    spec.memory = kDevice * kMib;
    spec.context_memory = kContext * kMib;
    machine_ = emulator::Machine::open(folder_ / "gpu", spec);
    start_daemon();
  }
  ~CudaMemory() override {
    daemon_.stop();
    fs::remove_all(folder_);
  }

  void start_daemon() {
    daemon_.start(limit_ * kMib,
                  device_says_ ? std::make_shared<EmulatedAccount>(clock_, *machine_) : nullptr);
  }
  void set_limit(Bytes mib) { daemon_.set_limit(mib * kMib); }

  // In MiB: by the daemon, and by the device.
  Bytes held() { return daemon_.look().held / kMib; }
  Bytes on_device() { return static_cast<Bytes>(emulator::memory_in_use(*machine_, 0)) / kMib; }

  const fs::path folder_ = testing::TempDir() + "cuda_memory" + std::to_string(getpid());
  SteadyClock clock_;
  std::unique_ptr<emulator::Machine> machine_;
  Bytes limit_ = 256;
  bool device_says_ = true;
  MemoryDaemon daemon_{folder_};
};

}  // namespace sluice
