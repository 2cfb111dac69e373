// sluice-store as a process, with clients that are processes, on an emulated GPU: by descriptors
// and by legacy handles. What is on the device, the emulated machine's own books say.
#include "node/store_process.h"

#include <gmock/gmock.h>
#include <stdlib.h>

#include <cstring>

#include "base/eventually_for_test.h"
#include "base/folder_for_test.h"
#include "emulator/device_memory.h"
#include "emulator/machine.h"
#include "node/store_client_for_test.h"
#include "tests/tensors_on_device.h"
#include "wire/cuda_abi.h"

namespace sluice::node {
namespace {

constexpr uint64_t kMib = 1 << 20;
constexpr uint64_t kBytes = 5 * kMib, kOnDevice = 6 * kMib;  // in granules of 2 MiB

bool enter_device() {
  CUcontext context = nullptr;
  return cuInit(0) == CUDA_SUCCESS && cuDevicePrimaryCtxRetain(&context, 0) == CUDA_SUCCESS &&
         cuCtxSetCurrent(context) == CUDA_SUCCESS;
}
CUdeviceptr address(const sluice_tensor* tensor) {
  return reinterpret_cast<CUdeviceptr>(tensor->data);
}
bool write(const sluice_tensor* tensor, char value) {
  const std::string bytes(tensor->bytes, value);
  return cuMemcpyHtoD_v2(address(tensor), bytes.data(), bytes.size()) == CUDA_SUCCESS;
}
// What its first and its last byte are, if they are the same.
char read_back(const sluice_tensor* tensor) {
  std::string bytes(tensor->bytes, 0);
  if (cuMemcpyDtoH_v2(bytes.data(), address(tensor), bytes.size()) != CUDA_SUCCESS) return '!';
  return bytes.front() == bytes.back() ? bytes.front() : '?';
}

// Stores "w", fills it with `value` if it is to; says 'c' then, or what it holds.
sluice_tensor* store_w(sluice_store* store, char value, const StoreUser::Say& say) {
  sluice_tensor* w = nullptr;
  if (!enter_device() || sluice_store_tensor(store, "w", kBytes, -1, &w) != SLUICE_OK) return w;
  if (w->fill == 0)
    say(read_back(w));
  else if (write(w, value) && sluice_commit_tensor(store, w) == SLUICE_OK)
    say('c');
  return w;
}
void get_w(sluice_store* store, const StoreUser::Say& say) {
  sluice_tensor* w = nullptr;
  if (enter_device() && sluice_get_tensor(store, "w", -1, &w) == SLUICE_OK) say(read_back(w));
}

class StoreProcess : public testing::TestWithParam<const char*> {
 protected:
  StoreProcess() {
    setenv("SLUICE_EMULATED_GPU", (folder_.path + "/gpu").c_str(), 1);
    machine_ = emulator::Machine::open(
        folder_.path + "/gpu", {.devices = 2, .memory = 4096 * kMib, .virtual_clock = true});
    start(4096 * kMib);
  }
  ~StoreProcess() override {
    if (store_ > 0) kill_store();
    unsetenv("CUDA_VISIBLE_DEVICES");
  }

  void start(uint64_t capacity) {
    SocketEnds pair = socket_pair();
    control_ = std::move(pair.ours);
    store_ = fork();
    if (store_ != 0) return;
    setenv("LD_LIBRARY_PATH", SLUICE_EMULATED_DRIVER_FOLDER, 1);
    dup2(pair.theirs.get(), 3);
    execl(SLUICE_STORE_PROGRAM, SLUICE_STORE_PROGRAM, "3", std::to_string(capacity).c_str(),
          GetParam(), nullptr);
    _exit(127);
  }
  void kill_store() {
    ::kill(store_, SIGKILL);
    waitpid(std::exchange(store_, -1), nullptr, 0);
  }
  Fd connect(const std::string& owner = "f") {
    SocketEnds pair = socket_pair();
    EXPECT_TRUE(hand_to_store(control_.get(), owner, std::move(pair.ours)).ok());
    return std::move(pair.theirs);
  }

  int on_device() { return tensors_on_device(*machine_, kOnDevice); }
  testing::AssertionResult becomes(int tensors) {
    return eventually(std::to_string(tensors) + " tensors on the device",
                      [&] { return on_device() == tensors; });
  }
  static bool legacy() { return std::string_view(GetParam()).starts_with("cuda-legacy"); }

  const FolderForTest folder_;
  std::unique_ptr<emulator::Machine> machine_;
  Fd control_;
  pid_t store_ = -1;
};

TEST_P(StoreProcess, OneCopyForAllWhoShareItGoneWithTheLast) {
  StoreUser storer(connect(), [](auto* store, const auto& say) { store_w(store, 'a', say); });
  ASSERT_EQ(storer.next_step(), 'c');
  StoreUser getter(connect(), get_w),
      again(connect(), [](auto*store, const auto&say) { store_w(store, 'b', say); });
  EXPECT_EQ(getter.next_step(), 'a');
  EXPECT_EQ(again.next_step(), 'a');
  EXPECT_EQ(on_device(), 1);
  storer.kill();
  getter.kill();
  EXPECT_EQ(on_device(), 1);
  again.kill();
  EXPECT_TRUE(becomes(0));
}

TEST_P(StoreProcess, ReleasedItIsFreeWhileItsUserLives) {
  StoreUser user(connect(), [](auto* store, const auto& say) {
    sluice_tensor* w = store_w(store, 'a', say);
    if (sluice_release_tensor(store, w) == SLUICE_OK) say('r');
  });
  ASSERT_EQ(user.next_step(), 'c');
  ASSERT_EQ(user.next_step(), 'r');
  EXPECT_EQ(on_device(), 0);
}

TEST_P(StoreProcess, AStorerKilledHalfWayLeavesNothingAndTheWaiterFillsIt) {
  StoreUser storer(connect(), [](auto* store, const auto& say) {
    sluice_tensor* w = nullptr;
    if (enter_device() && sluice_store_tensor(store, "w", kBytes, -1, &w) == SLUICE_OK &&
        cuMemsetD8_v2(address(w), 'h', kBytes / 2) == CUDA_SUCCESS)
      say('h');
  });
  ASSERT_EQ(storer.next_step(), 'h');
  StoreUser next(connect(), [](auto* store, const auto& say) { store_w(store, 'b', say); });
  storer.kill();
  EXPECT_EQ(next.next_step(), 'c');
  StoreUser getter(connect(), get_w);
  EXPECT_EQ(getter.next_step(), 'b');
  EXPECT_TRUE(becomes(1));
}

TEST_P(StoreProcess, WhatIsCommittedNobodyWritesButByLegacyHandles) {
  const auto may_write = [](sluice_tensor* w, const auto& say) {
    say(write(w, 'z') ? 'w' : 'r');
    say(cuMemsetD8_v2(address(w), 'z', 1) == CUDA_SUCCESS ? 'w' : 'r');
    say(read_back(w));
  };
  StoreUser storer(connect(),
                   [&](auto* store, const auto& say) { may_write(store_w(store, 'a', say), say); });
  ASSERT_EQ(storer.next_step(), 'c');
  StoreUser getter(connect(),
                   [&](auto* store, const auto& say) { may_write(store_w(store, 'a', say), say); });
  if (legacy()) return;
  getter.next_step();
  for (const StoreUser* user : {&storer, &getter}) {
    EXPECT_EQ(user->next_step(), 'r');
    EXPECT_EQ(user->next_step(), 'r');
    EXPECT_EQ(user->next_step(), 'a');
  }
}

TEST_P(StoreProcess, WhenItIsKilledWhatIsSharedByDescriptorsStays) {
  StoreUser user(connect(), [](auto* store, const auto& say) {
    const sluice_tensor* w = store_w(store, 'a', say);
    sluice_tensor* other = nullptr;
    while (sluice_get_tensor(store, "v", -1, &other) == SLUICE_NOT_FOUND) say('n');
    say(read_back(w));
  });
  ASSERT_EQ(user.next_step(), 'c');
  ASSERT_EQ(user.next_step(), 'n');
  kill_store();
  char step = 'n';
  while (step == 'n') step = user.next_step();
  // The emulated device keeps legacy memory for those who have opened it; a real one need not.
  EXPECT_EQ(step, 'a');
  EXPECT_EQ(on_device(), 1);
  user.kill();
  EXPECT_EQ(on_device(), 0);
}

TEST_P(StoreProcess, WithoutItsKeeperItServesWhoItHasAndEndsWithTheLast) {
  StoreUser storer(connect(), [](auto* store, const auto& say) { store_w(store, 'a', say); });
  Fd socket = connect();
  control_.reset();
  ASSERT_EQ(storer.next_step(), 'c');
  {
    StoreUser getter(std::move(socket), get_w);
    EXPECT_EQ(getter.next_step(), 'a');
    storer.kill();
  }
  int status = -1;
  EXPECT_EQ(waitpid(std::exchange(store_, -1), &status, 0) > 0, true);
  EXPECT_EQ(status, 0);
}

TEST_P(StoreProcess, AFullDeviceIsAnErrorInWords) {
  kill_store();
  start(uint64_t{1} << 40);
  StoreUser user(connect(), [](auto* store, const auto& say) {
    sluice_tensor* w = nullptr;
    if (!enter_device()) return;
    const auto error = sluice_store_tensor(store, "w", 8192 * kMib, -1, &w);
    say(error == SLUICE_EXHAUSTED ? 'e' : '?');
    say(std::strstr(sluice_store_why(store), "OUT_OF_MEMORY") != nullptr ? 'w' : '?');
    store_w(store, 'a', say);
  });
  EXPECT_EQ(user.next_step(), 'e');
  EXPECT_EQ(user.next_step(), 'w');
  EXPECT_EQ(user.next_step(), 'c') << "the store goes on";
}

TEST_P(StoreProcess, WhoDoesNotSeeTheDeviceIsToldSo) {
  StoreUser storer(connect(), [](auto* store, const auto& say) { store_w(store, 'a', say); });
  ASSERT_EQ(storer.next_step(), 'c');
  StoreUser other(connect(), [](auto* store, const auto& say) {
    setenv("CUDA_VISIBLE_DEVICES", "1", 1);
    sluice_tensor* w = nullptr;
    if (enter_device() && sluice_get_tensor(store, "w", -1, &w) == SLUICE_NOT_FOUND)
      say(std::strstr(sluice_store_why(store), "1 that this process sees") != nullptr ? 'n' : '?');
  });
  EXPECT_EQ(other.next_step(), 'n');
  storer.kill();
  EXPECT_TRUE(becomes(0)) << "it has kept no reference";
}

TEST_P(StoreProcess, ByDescriptorsTheStoreItselfCostsTheDeviceNothing) {
  StoreUser user(connect(), [](auto* store, const auto& say) { store_w(store, 'a', say); });
  ASSERT_EQ(user.next_step(), 'c');
  emulator::Machine::Lock lock(*machine_);
  uint64_t stores = 0;
  for (uint32_t i = 0; i < emulator::kProcesses; ++i)
    if (lock->processes[i].used && lock->processes[i].pid == store_)
      stores = emulator::memory_used_by(*lock, 0, i);
  EXPECT_EQ(stores, kOnDevice + (legacy() ? lock->spec.context_memory : 0));
}

INSTANTIATE_TEST_SUITE_P(Memory, StoreProcess, testing::Values("cuda:0", "cuda-legacy:0"),
                         [](const auto& info) {
                           return std::string(info.param).starts_with("cuda-legacy")
                                      ? "Legacy"
                                      : "Descriptors";
                         });

TEST(StoreProgram, SaysWhatItTakes) {
  const auto output = [](const std::string& arguments) {
    FILE* out = popen((SLUICE_STORE_PROGRAM " " + arguments + " 2>&1").c_str(), "r");
    std::string text(400, 0);
    text.resize(fread(text.data(), 1, text.size(), out));
    return std::to_string(WEXITSTATUS(pclose(out))) + " " + text;
  };
  EXPECT_THAT(output(""), testing::StartsWith("2 sluice-store: sluice-store CONTROL_FD"));
  EXPECT_THAT(output("0 5x cpu"), testing::HasSubstr("bytes: '5x'"));
  EXPECT_THAT(output("-1 5 cpu"), testing::HasSubstr("control: '-1'"));
  EXPECT_THAT(output("0 5 gpu"), testing::HasSubstr("cpu, cuda:N or cuda-legacy:N"));
  EXPECT_THAT(output("0 5 cuda:999"), testing::StartsWith("1 sluice-store: "));
}

}  // namespace
}  // namespace sluice::node
