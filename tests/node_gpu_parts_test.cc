// Instances of two parts, on two emulated GPUs, under a real daemon: one program, held to a slice
// of each device by that device's arbiter, which starts, changes and ends as a whole. The devices'
// own logs have its use.
#include <gmock/gmock.h>

#include "abi/cuda_types.h"
#include "tests/emulator/health.h"
#include "tests/emulator/identity.h"
#include "tests/support/device_windows.h"
#include "tests/support/eventually.h"
#include "tests/support/led_program.h"
#include "tests/support/node_with_gpus.h"
#include "tests/support/program.h"

namespace sluice {
namespace {

using emulator::Machine;
using testing::HasSubstr;
using testing::StartsWith;

constexpr Nanos kKernel = Millis(1);
constexpr Bytes kMib = Bytes{1} << 20;

class GpuParts : public NodeWithGpus {
 protected:
  // Programs have uids of their own.
  GpuParts() : NodeWithGpus(kTwoGpus, {"--replaced-within-ms", "200"}) {
    namespace fs = std::filesystem;
    fs::permissions(folder_, fs::perms(0755));
    for (const char* file : {"/gpu", "/gpu.memory"})
      fs::permissions(folder_ + file, fs::perms(0666));
  }

  static json part_on(const std::string& device, int request, Bytes memory = 0) {
    return {{"device", device}, {"slice", Node::slice(request, 0, memory)}};
  }
  static json parts(int first, int second, Bytes memory = 0) {
    return json::array({part_on("cuda0", first, memory), part_on("cuda1", second, memory)});
  }
  // An instance that serves, beside a CUDA program of its own: a line of a shell.
  json start(const json& parts, const std::string& words = "devices", std::string before = "") {
    before += "SLUICE_EMULATED_GPU=" + folder_ + "/gpu ";
    const std::string greedy = copy_in(*node_, SLUICE_CUDA_GREEDY);
    json serves = program_of_node(*node_, true, "", before + greedy + " " + words + " & ");
    serves["environment"]["LD_LIBRARY_PATH"] = copy_in(*node_, SLUICE_EMULATED_DRIVER_FOLDER);
    return node_->call(
        verb::post, "/v1/instances",
        {{"id", "pair"}, {"function", "default/f"}, {"parts", parts}, {"program", serves}});
  }
  json ready(int first, int second, const std::string& words = "devices") {
    const json started = start(parts(first, second), words);
    EXPECT_EQ(started["status"], 202) << started;
    const json pair = node_->wait("pair", "ready");
    expect_work_on({0, 1});
    return pair;
  }
  static std::map<std::string, std::string> environment_of(const json& taken,
                                                           const std::string& preload) {
    auto all = taken["environment"].get<std::map<std::string, std::string>>();
    all["LD_LIBRARY_PATH"] = SLUICE_EMULATED_DRIVER_FOLDER;
    all["LD_PRELOAD"] = preload;
    return all;
  }
  json resize(int first, int second) {
    return node_->call(verb::patch, "/v1/instances/pair", {{"parts", parts(first, second)}});
  }
  // So much that each device has confirmed the program's reports.
  void expect_work_on(const std::vector<unsigned>& devices) {
    for (const unsigned number : devices) {
      const Nanos before = busy(number);
      EXPECT_TRUE(eventually("200 ms of work", [&] {
        return busy(number) >= before + Millis(200);
      })) << number;
    }
  }
  void expect_shares(int first, int second) {
    expect_share_of_seconds(watch_windows(*machine_, 0), first, kKernel);
    expect_share_of_seconds(watch_windows(*machine_, 1), second, kKernel);
  }
  // By another program, not by this process, whose children the instances are as well.
  void take_most_of_cuda1() {
    start_program("cuda1", {"/bin/sleep", "1000"}, Node::slice(600), "other");
  }
  // This process takes both, as `sluice run` does. Its children are there, too.
  json take_both(const json& parts) {
    return node_->call(verb::post, "/v1/processes",
                       {{"id", "program"}, {"pid", getpid()}, {"parts", parts}});
  }
  void expect_gone(const std::string& error) {
    const json gone = node_->wait("pair", "gone");
    EXPECT_THAT(gone["error"].get<std::string>(), StartsWith(error));
    EXPECT_TRUE(eventually("no work", [&] {
      const Nanos before = busy(0) + busy(1);
      let_programs_work(Millis(20));
      return busy(0) + busy(1) == before;
    }));
  }
};

TEST_F(GpuParts, EachIsHeldToItsQuotaByItsDeviceAndBothChangeTogether) {
  const json pair = ready(200, 100);
  EXPECT_EQ(pair["siblings"], json::array()) << "one process serves both";
  expect_shares(200, 100);

  const json resized = resize(100, 300);
  EXPECT_EQ(resized["status"], 200) << resized;
  expect_shares(100, 300);

  take_most_of_cuda1();
  const json refused = resize(200, 500);
  EXPECT_EQ(refused["status"], 429);
  EXPECT_THAT(refused["error"].get<std::string>(), StartsWith("the part on cuda1: "));
  EXPECT_EQ(node_->get("/v1/instances/pair")["parts"], resized["parts"]) << "none has changed";
}

TEST_F(GpuParts, WithoutRoomForOneNothingStartsAndItsDeviceIsNamed) {
  take_most_of_cuda1();
  const json refused = start(parts(500, 500));
  EXPECT_EQ(refused["status"], 429);
  EXPECT_EQ(refused["error"],
            "the part on cuda1: cuda1 has no room for sm 100% × request 50% beside what it has "
            "promised");
  EXPECT_EQ(node_->get("/v1/instances/pair")["status"], 404);
  EXPECT_FALSE(std::filesystem::exists(node_->data + "/logs/pair.log")) << "nothing was born";
}

TEST_F(GpuParts, AFaultOfOneDeviceEndsAll) {
  ready(200, 200);
  {
    const Machine::Lock lock(*machine_);
    raise_xid(*lock, 1, 79);
  }
  expect_gone("cuda1 failed: Xid 79");
  EXPECT_EQ(device("cuda0")["drained"], false);
  EXPECT_EQ(take(getpid(), "cuda0", Node::slice(1000))["status"], 200);
}

TEST_F(GpuParts, ADrainOrAKillEndsItOnBoth) {
  ready(500, 500);
  node_->remove("pair", 100'000);
  expect_gone("");
  node_->remove("pair");  // its name is free
  const json pair = ready(500, 500);
  kill(pair["pid"].get<pid_t>(), SIGKILL);
  expect_gone("signal 9");
  EXPECT_EQ(take_both(parts(1000, 1000))["status"], 200) << "both devices are free";
}

TEST_F(GpuParts, ItOutlivesTheDaemonAndStaysUnderBothSlices) {
  const json pair = ready(200, 100, "turns");
  node_->restart();
  const json now = node_->wait("pair", "ready");
  for (const char* field : {"pid", "siblings", "parts", "socket"})
    EXPECT_EQ(now[field], pair[field]) << field;
  EXPECT_EQ(take(getpid(), "cuda0", Node::slice(801), "more")["status"], 429);
  EXPECT_EQ(take(getpid(), "cuda1", Node::slice(901), "more")["status"], 429);
  expect_work_on({0, 1});
  expect_shares(200, 100);
  EXPECT_EQ(resize(100, 200)["status"], 200);
  expect_shares(100, 200);
}

// As frameworks start a worker for each device.
TEST_F(GpuParts, AWorkerThatShowsItselfOneDeviceIsHeldThere) {
  start(parts(600, 100), "kernel", "CUDA_VISIBLE_DEVICES=${CUDA_VISIBLE_DEVICES#*,} ");
  expect_work_on({1});
  expect_share_of_seconds(watch_windows(*machine_, 1), 100, kKernel);
  EXPECT_EQ(busy(0), Nanos(0));
}

TEST_F(GpuParts, PartsAreOnDevicesOfOneKindAndHaveAllSmsOfGpus) {
  json mixed = parts(200, 200);
  mixed[1]["device"] = "cpu0";
  const json refused = start(mixed);
  EXPECT_EQ(refused["status"], 400);
  EXPECT_EQ(refused["error"],
            "parts: cuda0 is a GPU and cpu0 is none; the parts of a program are of one kind");
  json narrow = parts(200, 200);
  narrow[1]["slice"]["sm"] = 500;
  EXPECT_EQ(start(narrow)["error"],
            "slice.sm: 50% of cuda1: MPS confines programs on one GPU; one on several has 100% of "
            "each");
}

// A context is 256 MiB on each.
TEST_F(GpuParts, MemoryIsLimitedOnEachDeviceAndRecordedForTheNextDaemon) {
  const json taken = take_both(parts(200, 200, 512 * kMib));
  ASSERT_EQ(taken["status"], 200) << taken;
  LedProgram program({SLUICE_CUDA_MEMORY}, environment_of(taken, SLUICE_CUDA_HOOK));
  const auto ask = [&](const std::string& line) { return std::stoi(program.ask(line)); };
  EXPECT_EQ(std::stoi(program.next()), CUDA_SUCCESS);
  EXPECT_EQ(ask("plain 200"), CUDA_SUCCESS);
  EXPECT_EQ(ask("plain 60"), CUDA_ERROR_OUT_OF_MEMORY);
  EXPECT_EQ(ask("device 1"), CUDA_SUCCESS);
  EXPECT_EQ(ask("plain 100"), CUDA_SUCCESS);
  EXPECT_EQ(ask("plain 160"), CUDA_ERROR_OUT_OF_MEMORY);

  node_->restart();
  const json program_now = node_->insist(verb::get, "/v1/state")["instances"][0];
  EXPECT_GE(program_now.value("memory_held", Bytes{0}), (256 + 200 + 256 + 100) * kMib);
  EXPECT_EQ(ask("plain 160"), CUDA_ERROR_OUT_OF_MEMORY);
  EXPECT_EQ(ask("device 0"), CUDA_SUCCESS);
  EXPECT_EQ(ask("plain 60"), CUDA_ERROR_OUT_OF_MEMORY);
}

TEST_F(GpuParts, NvmlShowsBothPartsAlone) {
  const json taken = take_both(parts(200, 200, 256 * kMib));
  ASSERT_EQ(taken["status"], 200) << taken;
  const auto environment = environment_of(taken, SLUICE_NVML_HOOK);
  LedProgram program({SLUICE_NVML_READER, emulator::uuid_text(0), emulator::bus_text(0)},
                     environment);
  const json devices = json::parse(program.ask("look"))["devices"];
  ASSERT_EQ(devices.size(), 2u);
  for (const unsigned number : {0u, 1u}) {
    EXPECT_EQ(devices[number]["uuid"], emulator::uuid_text(number));
    EXPECT_EQ(devices[number]["memory"], json({256, 0, 256}));
  }
}

TEST_F(GpuParts, OneProcessIsOnOneCpuDevice) {
  json cpus = parts(200, 200);
  cpus[0]["device"] = "cpu0";
  cpus[1]["device"] = "cpu1";
  EXPECT_EQ(take_both(cpus)["error"],
            "parts: one process is on one CPU device; several devices are GPUs");
}

}  // namespace
}  // namespace sluice
