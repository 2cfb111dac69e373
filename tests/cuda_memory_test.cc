// Unmodified CUDA programs under the preloaded hook, on the emulated device, with a slice of its
// memory: each allocates what the test tells it to. What the daemon has written down is compared
// with what the device itself says.
#include <gtest/gtest.h>

#include <filesystem>
#include <map>
#include <memory>
#include <sstream>
#include <string>

#include "base/eventually_for_test.h"
#include "base/random.h"
#include "emulator/device_memory.h"
#include "emulator/machine.h"
#include "tests/led_program.h"
#include "tests/memory_daemon.h"
#include "wire/cuda_abi.h"

namespace sluice {
namespace {

namespace fs = std::filesystem;

constexpr Bytes kMib = Bytes{1} << 20;
constexpr Bytes kContext = 16;  // MiB
constexpr Bytes kDevice = 4096;

// What a program answers.
struct Answer {
  int result = -1;
  std::string word;       // the first of what follows
  Bytes numbers[3] = {};  // of it, where they are numbers
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
  // The next one, from 0; instantiated.
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

// What the emulated device says, at once.
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

  // In MiB: as the daemon has it, and as the device.
  Bytes held() { return daemon_.look().held / kMib; }
  Bytes on_device() {
    const emulator::Machine::Lock lock(*machine_);
    return static_cast<Bytes>(emulator::memory_used(*lock, 0)) / kMib;
  }

  const fs::path folder_ = testing::TempDir() + "cuda_memory" + std::to_string(getpid());
  SteadyClock clock_;
  std::unique_ptr<emulator::Machine> machine_;
  Bytes limit_ = 256;
  bool device_says_ = true;
  MemoryDaemon daemon_{folder_};
};

class EveryKind : public CudaMemory, public testing::WithParamInterface<const char*> {};

TEST_P(EveryKind, UpToTheLimitAndNotBeyondAndTheProgramLives) {
  Program program(folder_);
  const std::string kind = GetParam();
  const Bytes room = limit_ - kContext;
  for (Bytes mib = 0; mib < room; mib += 16)
    ASSERT_EQ(program.allocate(kind, 16), CUDA_SUCCESS) << mib;
  EXPECT_EQ(held(), limit_);
  EXPECT_EQ(on_device(), limit_);
  EXPECT_EQ(program.allocate(kind, 2), CUDA_ERROR_OUT_OF_MEMORY);
  EXPECT_EQ(on_device(), limit_);
  EXPECT_EQ(program.ask("free 0").result, CUDA_SUCCESS);
  EXPECT_EQ(program.allocate(kind, 18), CUDA_ERROR_OUT_OF_MEMORY);
  EXPECT_EQ(program.allocate(kind, 16), CUDA_SUCCESS);
}

INSTANTIATE_TEST_SUITE_P(CudaMemory, EveryKind,
                         testing::Values("plain", "pitched", "managed", "pooled", "virtual",
                                         "array", "flat", "mipmapped", "graph"),
                         [](const auto& info) { return std::string(info.param); });

// Pre-granted, so that a program need not ask for each; never so much that others are kept from it.
TEST_F(CudaMemory, HeadroomIsHeldAndGivenBack) {
  Program program(folder_);
  EXPECT_EQ(program.allocate("plain", 2), CUDA_SUCCESS);
  EXPECT_GT(held(), kContext + 2);
  EXPECT_LE(held(), kContext + 2 + limit_ / 16);
  for (int i = 0; i < 20; ++i) EXPECT_EQ(program.allocate("plain", 8), CUDA_SUCCESS);
  for (int i = 1; i <= 20; ++i)
    EXPECT_EQ(program.ask("free " + std::to_string(i)).result, CUDA_SUCCESS);
  EXPECT_LE(held(), kContext + 2 + 2 * limit_ / 16);
}

TEST_F(CudaMemory, ALowerLimitRefusesNewMemoryAndKillsNobody) {
  Program program(folder_);
  EXPECT_EQ(program.allocate("plain", 128), CUDA_SUCCESS);
  set_limit(64);
  EXPECT_EQ(program.allocate("plain", 2), CUDA_ERROR_OUT_OF_MEMORY);
  EXPECT_EQ(program.allocate("pooled", 2), CUDA_ERROR_OUT_OF_MEMORY);
  EXPECT_EQ(on_device(), kContext + 128);
  EXPECT_EQ(program.ask("info").numbers[0], 0);
  EXPECT_EQ(program.ask("free 0").result, CUDA_SUCCESS);
  EXPECT_EQ(program.allocate("plain", 64 - kContext), CUDA_SUCCESS);
  EXPECT_EQ(program.allocate("plain", 2), CUDA_ERROR_OUT_OF_MEMORY);
  set_limit(128);
  EXPECT_EQ(program.allocate("plain", 64), CUDA_SUCCESS);
  EXPECT_EQ(program.allocate("plain", 2), CUDA_ERROR_OUT_OF_MEMORY);
}

TEST_F(CudaMemory, ProgramsAreToldOfTheSlice) {
  Program program(folder_), other(folder_);
  Answer info = program.ask("info");
  EXPECT_EQ(info.numbers[0], limit_ - kContext);
  EXPECT_EQ(info.numbers[1], limit_);
  EXPECT_EQ(info.numbers[2], limit_);
  EXPECT_EQ(program.allocate("plain", 32), CUDA_SUCCESS);
  EXPECT_EQ(program.ask("info").numbers[0], limit_ - kContext - 32);
  EXPECT_EQ(other.allocate("virtual", 32), CUDA_SUCCESS);
  EXPECT_LE(program.ask("info").numbers[0], limit_ - 2 * kContext - 64);
  set_limit(2 * kDevice);  // never more than the device has
  info = program.ask("info");
  EXPECT_EQ(info.numbers[0], kDevice - on_device());
  EXPECT_EQ(info.numbers[1], kDevice);
}

TEST_F(CudaMemory, WhatAContextHadGoesWithIt) {
  Program program(folder_);
  for (const char* kind : {"plain", "managed", "array"})
    EXPECT_EQ(program.allocate(kind, 64), CUDA_SUCCESS);
  EXPECT_EQ(program.allocate("plain", 64), CUDA_ERROR_OUT_OF_MEMORY);
  EXPECT_EQ(program.ask("reset").result, CUDA_SUCCESS);
  EXPECT_EQ(on_device(), kContext);
  for (const char* kind : {"plain", "managed", "array"})
    EXPECT_EQ(program.allocate(kind, 64), CUDA_SUCCESS);
  EXPECT_EQ(program.allocate("plain", 64), CUDA_ERROR_OUT_OF_MEMORY);
}

TEST_F(CudaMemory, SoDoesWhatContextsOfItsOwnHadHoweverTheyEnd) {
  Program program(folder_);
  for (const char* end : {"destroy", "detach"})
    for (int i = 0; i < 4; ++i)
      EXPECT_EQ(program.ask(std::string("own 100 ") + end).result, CUDA_SUCCESS) << end << i;
  EXPECT_EQ(on_device(), kContext);
  EXPECT_EQ(program.allocate("plain", 200), CUDA_SUCCESS);
}

TEST_F(CudaMemory, WhatPoolsKeepForLaterIsForAllKinds) {
  Program program(folder_);
  EXPECT_EQ(program.ask("keep").result, CUDA_SUCCESS);
  int which = 0;
  for (const char* kind : {"plain", "pitched", "managed", "virtual", "array", "pooled", "graph"}) {
    EXPECT_EQ(program.allocate("pooled", 128), CUDA_SUCCESS);
    EXPECT_EQ(program.ask("free " + std::to_string(which++)).result, CUDA_SUCCESS);
    EXPECT_EQ(on_device(), kContext + 128) << "it is kept";
    EXPECT_EQ(program.allocate(kind, 192), CUDA_SUCCESS) << kind;
    EXPECT_EQ(program.ask("free " + std::to_string(which++)).result, CUDA_SUCCESS);
  }
}

// More than are looked at at once.
TEST_F(CudaMemory, WhatManyPoolsKeepForLaterIsForAllKinds) {
  Program program(folder_);
  ASSERT_EQ(program.ask("keepers 100").result, CUDA_SUCCESS);
  EXPECT_EQ(on_device(), kContext + 200) << "it is kept";
  EXPECT_EQ(program.allocate("plain", limit_ - kContext), CUDA_SUCCESS);
  EXPECT_EQ(on_device(), limit_);
}

// Handles are released and maps undone in any order, several maps by one call: a piece is charged
// until the last of both is gone, as the device has it.
TEST_F(CudaMemory, MappedMemoryGoesWithItsLastHandleOrMapInWhateverOrder) {
  constexpr int kPieces = 8;
  constexpr Bytes kPiece = 16;
  Program program(folder_);
  Random random(20);
  for (int round = 0; round < 20; ++round) {
    SCOPED_TRACE(round);
    ASSERT_EQ(program.ask("pieces " + std::to_string(kPieces)).result, CUDA_SUCCESS);
    std::vector<int> handle(kPieces, 1), map(kPieces, 1);
    const auto used = [&] {
      Bytes mib = kContext;
      for (int i = 0; i < kPieces; ++i) mib += handle[i] != 0 || map[i] != 0 ? kPiece : 0;
      return mib;
    };
    while (used() > kContext) {
      const auto i = static_cast<int>(random.below(kPieces));
      int count = 0;  // of those from there on that are mapped
      while (i + count < kPieces && map[i + count] != 0) ++count;
      if (random.below(2) == 0 && handle[i] != 0) {
        handle[i] = 0;
        ASSERT_EQ(program.ask("release " + std::to_string(i)).result, CUDA_SUCCESS);
      } else if (count > 0) {
        count = 1 + static_cast<int>(random.below(static_cast<uint64_t>(count)));
        std::fill_n(map.begin() + i, count, 0);
        ASSERT_EQ(program.ask("unmap " + std::to_string(i) + " " + std::to_string(count)).result,
                  CUDA_SUCCESS);
      }
      ASSERT_EQ(on_device(), used());
      ASSERT_GE(held(), used() - kContext) << "which is charged later";
    }
    ASSERT_EQ(program.allocate("plain", limit_ - kContext), CUDA_SUCCESS) << "nothing is charged";
    ASSERT_EQ(program.ask("free " + std::to_string(round)).result, CUDA_SUCCESS);
  }
}

// ---- graphs that allocate: captured from a stream, as frameworks make them ----------------------

TEST_F(CudaMemory, AGraphHasItsMemoryFromItsFirstLaunchUntilItIsTrimmed) {
  Program program(folder_);
  program.capture_graph(64, 0);
  EXPECT_EQ(on_device(), kContext);
  EXPECT_EQ(program.ask("info").numbers[0], limit_ - kContext);
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(program.launch(0), CUDA_SUCCESS);
    EXPECT_EQ(on_device(), kContext + 64);
    EXPECT_EQ(program.ask("info").numbers[0], limit_ - kContext - 64);
  }
  EXPECT_EQ(program.ask("drop 0").result, CUDA_SUCCESS);
  EXPECT_EQ(program.ask("info").numbers[0], limit_ - kContext - 64) << "a device keeps it";
  EXPECT_EQ(program.ask("trim").result, CUDA_SUCCESS);
  EXPECT_EQ(program.ask("info").numbers[0], limit_ - kContext);
}

TEST_F(CudaMemory, EveryWayToInstantiateAGraphIsCharged) {
  int graph = 0;
  Program program(folder_);
  for (const char* by : {"first", "second", "flags", "params", "upload"}) {
    SCOPED_TRACE(by);
    program.capture_graph(128, 0, by);
    const bool uploaded = by == std::string("upload");
    EXPECT_EQ(on_device(), kContext + (uploaded ? 128 : 0));
    EXPECT_EQ(program.launch(graph), CUDA_SUCCESS);
    EXPECT_EQ(program.ask("info").numbers[0], limit_ - kContext - 128);
    EXPECT_EQ(program.ask("drop " + std::to_string(graph++)).result, CUDA_SUCCESS);
    EXPECT_EQ(program.ask("trim").result, CUDA_SUCCESS);
  }
  EXPECT_EQ(program.ask("capture 512 0").result, CUDA_SUCCESS);
  EXPECT_EQ(program.ask("instantiate 5 upload").result, CUDA_ERROR_OUT_OF_MEMORY);
  EXPECT_EQ(program.ask("instantiate 5 flags").result, CUDA_SUCCESS) << "nothing is left of it";
  EXPECT_EQ(program.ask("upload 5").result, CUDA_ERROR_OUT_OF_MEMORY);
  EXPECT_EQ(on_device(), kContext);
}

TEST_F(CudaMemory, AGraphThatTheSliceHasNoRoomForIsNotLaunchedAndHarmsNothing) {
  Program program(folder_);
  program.capture_graph(0, 128);
  program.capture_graph(128, 0);
  EXPECT_EQ(program.launch(0), CUDA_SUCCESS);
  for (int i = 0; i < 2; ++i) {
    EXPECT_EQ(program.launch(1), CUDA_ERROR_OUT_OF_MEMORY);
    EXPECT_EQ(on_device(), kContext + 128);
    EXPECT_EQ(program.ask("info").numbers[0], limit_ - kContext - 128);
    EXPECT_EQ(program.launch(0), CUDA_SUCCESS) << "it has its memory";
  }
  set_limit(kContext + 256);
  EXPECT_EQ(program.launch(1), CUDA_SUCCESS);
  set_limit(kContext);
  EXPECT_EQ(program.launch(0), CUDA_SUCCESS) << "a lower limit takes nothing away";
  EXPECT_EQ(program.launch(1), CUDA_SUCCESS);
  EXPECT_EQ(program.allocate("plain", 2), CUDA_ERROR_OUT_OF_MEMORY) << "and gives nothing new";
  EXPECT_EQ(program.launch(1), CUDA_ERROR_OUT_OF_MEMORY) << "what is trimmed is new again";
}

TEST_F(CudaMemory, WhatGraphsKeepForLaterIsForAllKindsAndForOtherGraphs) {
  Program program(folder_);
  int which = 0;
  program.capture_graph(128, 0);
  program.capture_graph(192, 0);
  for (const char* kind : {"plain", "pitched", "managed", "virtual", "array", "pooled", "graph"}) {
    EXPECT_EQ(program.launch(0), CUDA_SUCCESS) << "what it needs is trimmed from the other";
    EXPECT_EQ(on_device(), kContext + 128);
    EXPECT_EQ(program.allocate(kind, 192), CUDA_SUCCESS) << kind;
    EXPECT_EQ(program.launch(0), CUDA_ERROR_OUT_OF_MEMORY) << kind;
    EXPECT_EQ(program.ask("free " + std::to_string(which++)).result, CUDA_SUCCESS);
    EXPECT_EQ(program.launch(1), CUDA_SUCCESS);
    EXPECT_EQ(on_device(), kContext + 192);
  }
}

// What it frees itself can be trimmed, what it leaves cannot: its next launch needs the former.
TEST_F(CudaMemory, AGraphThatLeavesMemoryNeedsWhatWasTrimmedOfIt) {
  Program program(folder_);
  program.capture_graph(64, 96);
  EXPECT_EQ(program.launch(0), CUDA_SUCCESS);
  EXPECT_EQ(on_device(), kContext + 160);
  EXPECT_EQ(program.allocate("plain", 96), CUDA_SUCCESS);
  EXPECT_EQ(on_device(), kContext + 96 + 96);
  EXPECT_EQ(program.launch(0), CUDA_ERROR_OUT_OF_MEMORY);
  EXPECT_EQ(program.ask("free 0").result, CUDA_SUCCESS);
  EXPECT_EQ(program.allocate("plain", 80), CUDA_SUCCESS);
  EXPECT_EQ(program.launch(0), CUDA_SUCCESS);
  EXPECT_EQ(on_device(), limit_);
  EXPECT_EQ(program.ask("info").numbers[0], 0);
}

TEST_F(CudaMemory, WhatAProcessImportsItsOwnerPays) {
  Program owner(folder_), other(folder_);
  EXPECT_EQ(owner.allocate("plain", 64), CUDA_SUCCESS);
  EXPECT_EQ(other.allocate("plain", 2), CUDA_SUCCESS);
  const Answer exported = owner.ask("export 0");
  const Bytes before = held();
  EXPECT_EQ(other.ask("import " + exported.word).result, CUDA_SUCCESS);
  EXPECT_EQ(other.ask("free 1").result, CUDA_SUCCESS);
  EXPECT_EQ(other.ask("import " + exported.word).result, CUDA_SUCCESS);
  EXPECT_EQ(held(), before);
}

TEST_F(CudaMemory, AKilledProcessLeavesItsMemoryToOthers) {
  Program other(folder_);
  EXPECT_EQ(other.allocate("plain", 2), CUDA_SUCCESS);
  int which = 1;
  for (const char* kind : {"plain", "graph"}) {
    Program victim(folder_);
    const Bytes rest = limit_ - 2 * kContext - 16 - 2;
    EXPECT_EQ(victim.allocate(kind, rest), CUDA_SUCCESS);
    const Answer child = victim.ask("fork");  // keeps its descriptors open
    EXPECT_EQ(child.result, CUDA_SUCCESS);
    EXPECT_EQ(other.allocate("plain", rest), CUDA_ERROR_OUT_OF_MEMORY);
    victim.end();
    EXPECT_TRUE(eventually("its memory to be free", [&] { return held() < rest; }));
    EXPECT_EQ(other.allocate("plain", rest), CUDA_SUCCESS);
    EXPECT_EQ(other.ask("free " + std::to_string(which + 1)).result, CUDA_SUCCESS);
    which += 2;
    kill(static_cast<pid_t>(child.numbers[0]), SIGKILL);
  }
}

TEST_F(CudaMemory, FourProcessesTogetherKeepToTheLimit) {
  constexpr int kPrograms = 4;
  std::vector<std::unique_ptr<Program>> programs;
  std::vector<std::vector<int>> has(kPrograms);
  std::vector<int> next(kPrograms, 0);
  for (int i = 0; i < kPrograms; ++i) programs.push_back(std::make_unique<Program>(folder_));
  constexpr uint64_t kSeed = 7;
  SCOPED_TRACE("seed " + std::to_string(kSeed));
  Random random(kSeed);
  const char* const kinds[] = {"plain",   "pitched", "managed", "pooled",
                               "virtual", "array",   "graph"};
  int refused = 0;
  for (int i = 0; i < 600; ++i) {
    const auto which = static_cast<size_t>(random.below(kPrograms));
    if (!has[which].empty() && random.chance(0.4)) {
      const size_t victim = random.below(has[which].size());
      EXPECT_EQ(programs[which]->ask("free " + std::to_string(has[which][victim])).result, 0);
      has[which].erase(has[which].begin() + static_cast<std::ptrdiff_t>(victim));
    } else {
      const Bytes mib = 2 * random.between(1, 16);
      const int result = programs[which]->allocate(kinds[random.below(std::size(kinds))], mib);
      if (result == CUDA_SUCCESS) has[which].push_back(next[which]);
      ASSERT_TRUE(result == CUDA_SUCCESS || result == CUDA_ERROR_OUT_OF_MEMORY) << result;
      refused += result == CUDA_SUCCESS ? 0 : 1;
      ++next[which];
    }
    ASSERT_LE(on_device(), limit_);
    ASSERT_LE(held(), limit_);
  }
  EXPECT_GT(refused, 10);
  for (const auto& program : programs) program->end();
  EXPECT_TRUE(eventually("nothing to be held", [&] { return held() == 0; }));
}

TEST_F(CudaMemory, ThreadsThatComeAtOnceKeepToTheLimitAndLeaveNothingCharged) {
  Program program(folder_);
  program.tell("threads 8");
  // Who looks without a pause keeps the device's lock from the program, and from the daemon.
  EXPECT_TRUE(eventually("its answer", [&] {
    EXPECT_LE(on_device(), limit_);
    return program.has_answered();
  }));
  EXPECT_EQ(program.next().result, CUDA_SUCCESS);
  EXPECT_EQ(on_device(), kContext);
  EXPECT_EQ(program.ask("info").numbers[0], limit_ - kContext);
  EXPECT_EQ(program.allocate("plain", limit_ - kContext), CUDA_SUCCESS);
}

// One thread looks at all pools whenever another frees or is short of memory.
TEST_F(CudaMemory, APoolThatGoesWhileOthersLookAtItLeavesNothingCharged) {
  Program program(folder_);
  EXPECT_EQ(program.ask("pools 8").result, CUDA_SUCCESS);
  EXPECT_EQ(on_device(), kContext);
  EXPECT_EQ(program.ask("info").numbers[0], limit_ - kContext);
  EXPECT_EQ(program.allocate("plain", limit_ - kContext), CUDA_SUCCESS);
}

// The page goes away under threads that look at it.
TEST_F(CudaMemory, ADaemonThatCountsNoMoreHarmsNoThread) {
  Program program(folder_);
  EXPECT_EQ(program.allocate("plain", 2), CUDA_SUCCESS);
  program.tell("threads 8");
  for (int round = 0; !program.has_answered(); ++round)
    daemon_.start(round % 2 == 0 ? 0 : limit_ * kMib);
  EXPECT_EQ(program.next().result, CUDA_SUCCESS);
  EXPECT_EQ(program.ask("free 0").result, CUDA_SUCCESS);
}

TEST_F(CudaMemory, WithoutADaemonAProcessHasItsPartOfTheRest) {
  Program program(folder_), other(folder_);
  EXPECT_EQ(program.allocate("plain", 64), CUDA_SUCCESS);
  EXPECT_EQ(other.allocate("plain", 64), CUDA_SUCCESS);
  daemon_.stop();
  for (Program* p : {&program, &other})
    while (p->allocate("plain", 2) == CUDA_SUCCESS) ASSERT_LE(on_device(), limit_);
  EXPECT_GT(on_device(), 2 * kContext + 2 * 64 + 32);
  start_daemon();
  EXPECT_EQ(program.ask("free 0").result, CUDA_SUCCESS);
  EXPECT_TRUE(eventually("what it freed to be lent", [&] {
    program.allocate("plain", 256);  // refused; it comes back
    return other.allocate("plain", 48) == CUDA_SUCCESS;
  }));
  EXPECT_LE(on_device(), limit_);
  EXPECT_LE(held(), limit_);
}

// Whether or not the device says what they have.
TEST_F(CudaMemory, TheNextDaemonLendsNobodyWhatAnotherHas) {
  for (const bool device_says : {true, false}) {
    Program program(folder_), other(folder_);
    EXPECT_EQ(program.allocate("plain", 64), CUDA_SUCCESS);
    EXPECT_EQ(other.allocate("plain", 64), CUDA_SUCCESS);
    daemon_.stop();
    EXPECT_EQ(other.allocate("plain", 16), CUDA_SUCCESS);
    device_says_ = device_says;
    start_daemon();
    while (program.allocate("plain", 2) == CUDA_SUCCESS) ASSERT_LE(on_device(), limit_);
    EXPECT_GT(on_device(), 2 * kContext + 64 + 64 + 16);
    while (other.allocate("plain", 2) == CUDA_SUCCESS) ASSERT_LE(on_device(), limit_);
    EXPECT_EQ(daemon_.look().holders, 2);
  }
}

TEST_F(CudaMemory, AProgramWhoseMemoryNobodyCountsHasTheDevices) {
  daemon_.start(0);
  Program program(folder_);
  EXPECT_EQ(program.allocate("plain", 2 * limit_), CUDA_SUCCESS);
  EXPECT_EQ(program.allocate("pooled", 64), CUDA_SUCCESS);
  EXPECT_EQ(program.ask("info").numbers[1], kDevice);
}

}  // namespace
}  // namespace sluice
