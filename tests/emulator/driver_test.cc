// The emulated driver in several processes at once. Each test's clients are children that use it;
// what they did is checked by the device's log.
#include <gtest/gtest.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstring>
#include <filesystem>
#include <thread>
#include <vector>

#include "abi/cuda_abi.h"
#include "tests/emulator/device_memory.h"
#include "tests/emulator/identity.h"
#include "tests/support/emulated_machine.h"

namespace sluice::emulator {
namespace {
// What a client needs in every test; a step that fails ends it with its line's number.
#define NEED(condition) \
  if (!(condition)) _exit(__LINE__ % 200 + 1)

struct Client {
  Client() {
    NEED(cuInit(0) == CUDA_SUCCESS);
    NEED(cuDevicePrimaryCtxRetain(&context, 0) == CUDA_SUCCESS);
    NEED(cuCtxSetCurrent(context) == CUDA_SUCCESS);
    NEED(cuModuleLoadData(&module, "kernel work ns=1000000") == CUDA_SUCCESS);
    NEED(cuModuleGetFunction(&work, module, "work") == CUDA_SUCCESS);
  }
  void launch(unsigned blocks, CUstream stream = nullptr) const {
    NEED(cuLaunchKernel(work, blocks, 1, 1, 1, 1, 1, 0, stream, nullptr, nullptr) == CUDA_SUCCESS);
  }
  CUcontext context = nullptr;
  CUmodule module = nullptr;
  CUfunction work = nullptr;
};

class DriverTest : public MachineFixture {
 protected:
  ~DriverTest() override {
    unsetenv("CUDA_VISIBLE_DEVICES");
    unsetenv("CUDA_MPS_ACTIVE_THREAD_PERCENTAGE");
  }

  void start(const char* settings) {
    machine_ = open(settings);
    ASSERT_NE(machine_, nullptr);
  }
  static void ended_well(pid_t pid) {
    int status = -1;
    ASSERT_EQ(waitpid(pid, &status, 0), pid);
    EXPECT_TRUE(WIFEXITED(status));
    EXPECT_EQ(WEXITSTATUS(status), 0) << "the line of the step that failed, modulo 200, plus 1";
  }
  static void killed(pid_t pid) {
    kill(pid, SIGKILL);
    EXPECT_EQ(waitpid(pid, nullptr, 0), pid);
  }
  // Lets all run out in virtual time.
  void run_out() {
    machine_->wait([](MachineState&) { return false; });
  }
  // SM time of a process by the log.
  Ns sm_ns(pid_t pid) {
    Machine::Lock lock(*machine_);
    Ns sum = 0;
    for (std::uint64_t i = 0; i < lock->devices[0].log_end(); ++i)
      if (const Stretch& s = lock->devices[0].stretch(i); s.process == static_cast<unsigned>(pid))
        sum += (s.end_ns - s.begin_ns) * s.sms;
    return sum;
  }

  std::unique_ptr<Machine> machine_;
};

// A pipe between a test and its children.
struct Channel {
  Channel() { EXPECT_EQ(pipe(ends), 0); }
  ~Channel() {
    close(ends[0]);
    close(ends[1]);
  }
  template <typename T>
  void send(const T& value) const {
    NEED(write(ends[1], &value, sizeof value) == sizeof value);
  }
  template <typename T>
  T receive() const {
    T value{};
    NEED(read(ends[0], &value, sizeof value) == sizeof value);
    return value;
  }
  int ends[2];
};

// What functions of a program's in a stream saw.
struct Seen {
  int runs = 0;
  CUresult asked = CUDA_SUCCESS, status = CUDA_ERROR_UNKNOWN;
};

class HostFunctions : public DriverTest, public testing::WithParamInterface<const char*> {};
INSTANTIATE_TEST_SUITE_P(, HostFunctions, testing::Values("", "clock=virtual"), [](const auto& i) {
  return std::string(*i.param == 0 ? "real" : "virtual_clock");
});

TEST_P(HostFunctions, RunBetweenWhatStandsBeforeAndBehind) {
  start(GetParam());
  ended_well(child([] {
    const Client client;
    Seen seen;
    const CUhostFn function = [](void* user) {
      auto* seen = static_cast<Seen*>(user);
      ++seen->runs;
      seen->asked = cuStreamQuery(nullptr);
    };
    const CUstreamCallback callback = [](CUstream, CUresult status, void* user) {
      static_cast<Seen*>(user)->status = status;
    };
    client.launch(1);
    NEED(cuLaunchHostFunc(nullptr, function, &seen) == CUDA_SUCCESS);
    client.launch(1);
    NEED(cuStreamAddCallback(nullptr, callback, &seen, 0) == CUDA_SUCCESS);
    NEED(cuStreamAddCallback(nullptr, callback, &seen, 1) == CUDA_ERROR_INVALID_VALUE);
    NEED(cuLaunchHostFunc(nullptr, nullptr, &seen) == CUDA_ERROR_INVALID_VALUE);
    NEED(cuStreamSynchronize(nullptr) == CUDA_SUCCESS);
    NEED(seen.runs == 1 && seen.status == CUDA_SUCCESS);
    NEED(seen.asked == CUDA_ERROR_NOT_PERMITTED);
  }));
}

TEST_P(HostFunctions, AreNodesOfGraphs) {
  start(GetParam());
  ended_well(child([] {
    const Client client;
    CUstream stream = nullptr;
    CUgraph graph = nullptr;
    CUgraphExec exec = nullptr;
    Seen seen;
    const CUhostFn function = [](void* user) { ++static_cast<Seen*>(user)->runs; };
    NEED(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING) == CUDA_SUCCESS);
    NEED(cuStreamBeginCapture_v2(stream, CU_STREAM_CAPTURE_MODE_GLOBAL) == CUDA_SUCCESS);
    client.launch(1, stream);
    NEED(cuLaunchHostFunc(stream, function, &seen) == CUDA_SUCCESS);
    NEED(cuStreamEndCapture(stream, &graph) == CUDA_SUCCESS);
    NEED(cuGraphInstantiateWithFlags(&exec, graph, 0) == CUDA_SUCCESS);
    NEED(seen.runs == 0);
    for (int i = 0; i < 3; ++i) NEED(cuGraphLaunch(exec, stream) == CUDA_SUCCESS);
    NEED(cuStreamSynchronize(stream) == CUDA_SUCCESS);
    NEED(seen.runs == 3);
  }));
}

// Its process has died, and with it the thread that ran them: others find the device free.
TEST_P(HostFunctions, OfADeadProcessHoldUpNobody) {
  start(GetParam());
  const Channel stuck;
  const pid_t dead = child([&] {
    const Client client;
    NEED(cuLaunchHostFunc(
             nullptr, [](void* user) { static_cast<Channel*>(user)->send('!'), pause(); },
             const_cast<Channel*>(&stuck)) == CUDA_SUCCESS);
    client.launch(1);
    for (;;) pause();
  });
  stuck.receive<char>();
  killed(dead);
  ended_well(child([] {
    const Client client;
    client.launch(1);
    NEED(cuStreamSynchronize(nullptr) == CUDA_SUCCESS);
  }));
}

TEST_F(DriverTest, ClientsOfASharedDeviceKeepToTheirPercentage) {
  start("sms=100 shared=1 clock=virtual");
  std::vector<pid_t> clients;
  for (const char* percent : {"20", "50"}) {
    setenv("CUDA_MPS_ACTIVE_THREAD_PERCENTAGE", percent, 1);
    clients.push_back(child([] { Client().launch(100); }));
    ended_well(clients.back());
  }
  run_out();
  Machine::Lock lock(*machine_);
  ASSERT_EQ(lock->devices[0].log_end(), 2U);
  EXPECT_EQ(lock->devices[0].stretch(0).sms, 50U);
  EXPECT_EQ(lock->devices[0].stretch(0).end_ns, 2'000'000);
  EXPECT_EQ(lock->devices[0].stretch(1).sms, 20U);
  EXPECT_EQ(lock->devices[0].stretch(1).end_ns, 5'000'000);
}

TEST_F(DriverTest, WithoutSharingTwoGreedyOnesGetHalfEach) {
  start("sms=8 slice_us=2000 clock=virtual");
  const auto greedy = [] {
    const Client client;
    for (int i = 0; i < 100; ++i) client.launch(8);
  };
  const pid_t a = child(greedy), b = child(greedy);
  ended_well(a);
  ended_well(b);
  {
    Machine::Lock lock(*machine_);
    lock->virtual_now = 100'000'000;
  }
  EXPECT_NEAR(static_cast<double>(sm_ns(a)), 400e6, 16e6);
  EXPECT_NEAR(static_cast<double>(sm_ns(b)), 400e6, 16e6);
}

TEST_F(DriverTest, MemoryGoesToAnotherProcessAndStaysWhileItIsHeld) {
  start("memory_mib=1024 context_mib=64 clock=virtual");
  Channel handles, done;
  const pid_t owner = child([&] {
    const Client client;
    CUdeviceptr pointer = 0;
    CUipcMemHandle handle{};
    NEED(cuMemAlloc_v2(&pointer, 100 * kMib) == CUDA_SUCCESS);
    NEED(cuMemcpyHtoD_v2(pointer, "shared", 7) == CUDA_SUCCESS);
    NEED(cuIpcGetMemHandle(&handle, pointer) == CUDA_SUCCESS);
    handles.send(handle);
    pause();
  });
  const auto handle = handles.receive<CUipcMemHandle>();
  Channel opened;
  const pid_t other = child([&] {
    const Client client;
    CUdeviceptr pointer = 0;
    char text[7] = {};
    NEED(cuIpcOpenMemHandle_v2(&pointer, handle, 1) == CUDA_SUCCESS);
    opened.send('o');
    done.receive<char>();
    NEED(cuMemcpyDtoH_v2(text, pointer, sizeof text) == CUDA_SUCCESS);
    NEED(std::strcmp(text, "shared") == 0);
    NEED(cuIpcCloseMemHandle(pointer) == CUDA_SUCCESS);
    std::size_t free = 0, total = 0;
    NEED(cuMemGetInfo_v2(&free, &total) == CUDA_SUCCESS);
    NEED(free == (1024 - 64) * kMib);
  });
  opened.receive<char>();
  killed(owner);
  done.send('d');
  ended_well(other);
}

TEST_F(DriverTest, AHandleOfFreedMemoryIsRefused) {
  start("memory_mib=1024 context_mib=64 clock=virtual");
  Channel handles;
  ended_well(child([&] {
    const Client client;
    CUdeviceptr pointer = 0;
    CUipcMemHandle handle{};
    NEED(cuMemAlloc_v2(&pointer, kMib) == CUDA_SUCCESS);
    NEED(cuIpcGetMemHandle(&handle, pointer) == CUDA_SUCCESS);
    NEED(cuMemFree_v2(pointer) == CUDA_SUCCESS);
    handles.send(handle);
  }));
  ended_well(child([&] {
    const Client client;
    CUdeviceptr pointer = 0;
    NEED(cuIpcOpenMemHandle_v2(&pointer, handles.receive<CUipcMemHandle>(), 1) ==
         CUDA_ERROR_INVALID_VALUE);
  }));
}

TEST_F(DriverTest, AKilledClientsMemoryIsThereForTheNext) {
  start("memory_mib=1024 context_mib=64 clock=virtual");
  Channel allocated;
  const pid_t hog = child([&] {
    const Client client;
    CUdeviceptr pointer = 0;
    NEED(cuMemAlloc_v2(&pointer, 800 * kMib) == CUDA_SUCCESS);
    allocated.send('a');
    pause();
  });
  allocated.receive<char>();
  ended_well(child([&] {
    const Client client;
    CUdeviceptr pointer = 0;
    NEED(cuMemAlloc_v2(&pointer, 800 * kMib) == CUDA_ERROR_OUT_OF_MEMORY);
  }));
  killed(hog);
  ended_well(child([] {
    const Client client;
    CUdeviceptr pointer = 0;
    NEED(cuMemAlloc_v2(&pointer, 800 * kMib) == CUDA_SUCCESS);
  }));
}

TEST_F(DriverTest, SoAreItsStreamsAndEvents) {
  start("memory_mib=1024 context_mib=0 clock=virtual");
  for (int program = 0; program < 6; ++program) {
    ended_well(child([] {
      const Client client;
      for (int i = 0; i < 1000; ++i) {
        CUstream stream = nullptr;
        NEED(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING) == CUDA_SUCCESS);
      }
      for (int i = 0; i < 8000; ++i) {
        CUevent event = nullptr;
        NEED(cuEventCreate(&event, CU_EVENT_DEFAULT) == CUDA_SUCCESS);
      }
    }));
  }
}

TEST_F(DriverTest, AnInjectedErrorComesOnceAtItsCall) {
  start("memory_mib=1024 clock=virtual");
  {
    Machine::Lock lock(*machine_);
    ASSERT_TRUE(inject(*lock, "cuMemAlloc_v2", CUDA_ERROR_ECC_UNCORRECTABLE, 1));
  }
  ended_well(child([] {
    const Client client;
    CUdeviceptr pointer = 0;
    NEED(cuMemAlloc_v2(&pointer, kMib) == CUDA_SUCCESS);
    NEED(cuMemAlloc_v2(&pointer, kMib) == CUDA_ERROR_ECC_UNCORRECTABLE);
    NEED(cuMemAlloc_v2(&pointer, kMib) == CUDA_SUCCESS);
  }));
}

TEST_F(DriverTest, VisibleDevicesAreChosenByNumberOrUuidInThatOrder) {
  start("devices=3 clock=virtual");
  setenv("CUDA_VISIBLE_DEVICES", (uuid_text(2) + ",0,7,1").c_str(), 1);
  ended_well(child([] {
    int count = 0;
    CUuuid uuid{};
    NEED(cuInit(0) == CUDA_SUCCESS);
    NEED(cuDeviceGetCount(&count) == CUDA_SUCCESS && count == 2);
    NEED(cuDeviceGetUuid_v2(&uuid, 0) == CUDA_SUCCESS);
    NEED(std::memcmp(&uuid, uuid_of(2).data(), sizeof uuid) == 0);
  }));
  setenv("CUDA_VISIBLE_DEVICES", "", 1);
  ended_well(child([] { NEED(cuInit(0) == CUDA_ERROR_NO_DEVICE); }));
}

TEST_F(DriverTest, CopiesTakeTheTimeOfTheirBytes) {
  start("memory_mib=1024 link_gbps=10 clock=virtual");
  ended_well(child([] {
    const Client client;
    CUdeviceptr pointer = 0;
    CUevent begin = nullptr, end = nullptr;
    float milliseconds = 0;
    const std::vector<char> host(10'000'000);
    NEED(cuMemAlloc_v2(&pointer, host.size()) == CUDA_SUCCESS);
    NEED(cuEventCreate(&begin, 0) == CUDA_SUCCESS && cuEventCreate(&end, 0) == CUDA_SUCCESS);
    NEED(cuEventRecord(begin, nullptr) == CUDA_SUCCESS);
    NEED(cuMemcpyHtoD_v2(pointer, host.data(), host.size()) == CUDA_SUCCESS);
    NEED(cuEventRecord(end, nullptr) == CUDA_SUCCESS);
    NEED(cuEventSynchronize(end) == CUDA_SUCCESS);
    NEED(cuEventElapsedTime(&milliseconds, begin, end) == CUDA_SUCCESS);
    NEED(milliseconds == 1);
  }));
}

TEST_F(DriverTest, ManyProcessesStartAtOnce) {
  start("memory_mib=65536 context_mib=64 clock=virtual");
  std::vector<pid_t> clients;
  for (int i = 0; i < 64; ++i) clients.push_back(child([] { Client().launch(1); }));
  for (const pid_t client : clients) ended_well(client);
  run_out();
  Machine::Lock lock(*machine_);
  EXPECT_EQ(lock->devices[0].log_end(), 64U);
}

TEST_F(DriverTest, ManyThreadsLaunchOnStreamsOfTheirOwn) {
  start("sms=8 shared=1");  // in real time
  ended_well(child([] {
    const Client client;
    CUfunction brief = nullptr;
    CUmodule module = nullptr;
    NEED(cuModuleLoadData(&module, "kernel brief ns=500") == CUDA_SUCCESS);
    NEED(cuModuleGetFunction(&brief, module, "brief") == CUDA_SUCCESS);
    std::vector<std::thread> threads;
    for (int t = 0; t < 4; ++t)
      threads.emplace_back([&] {
        NEED(cuCtxSetCurrent(client.context) == CUDA_SUCCESS);
        CUstream stream = nullptr;
        NEED(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING) == CUDA_SUCCESS);
        for (int i = 0; i < 2000; ++i)
          NEED(cuLaunchKernel(brief, 1, 1, 1, 1, 1, 1, 0, stream, nullptr, nullptr) ==
               CUDA_SUCCESS);
        NEED(cuStreamSynchronize(stream) == CUDA_SUCCESS);
      });
    for (std::thread& thread : threads) thread.join();
  }));
  Machine::Lock lock(*machine_);
  std::uint64_t ended = 0;
  for (std::uint64_t i = 0; i < lock->devices[0].log_end(); ++i)
    ended += lock->devices[0].stretch(i).last;
  EXPECT_EQ(ended, 8000U);
}

}  // namespace
}  // namespace sluice::emulator
