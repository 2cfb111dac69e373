// sluice-store as a process, with clients that are processes, on an emulated GPU: by descriptors
// and by legacy handles. The emulated machine's own books say what is on the device.
#include <gmock/gmock.h>

#include <cstring>

#include "tests/emulator/device_memory.h"
#include "tests/support/store_on_gpu.h"

namespace sluice::node {
namespace {

class StoreProcess : public StoreOnGpu, public testing::TestWithParam<const char*> {
 protected:
  StoreProcess() : StoreOnGpu(SLUICE_STORE_PROGRAM, GetParam()) {}
  ~StoreProcess() override { unsetenv("CUDA_VISIBLE_DEVICES"); }
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
  // The emulated device keeps legacy memory for processes that have opened it; a real one need not.
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
