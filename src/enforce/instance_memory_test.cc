#include "enforce/instance_memory.h"

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include "tests/support/child.h"

namespace sluice::node {
namespace {

constexpr Bytes kMiB = Bytes{1} << 20;

TEST(MemoryLimit, IsWhatTheSliceStatesAndRoomForTheRuntime) {
  const Device device{.id = "cpu0", .memory = 4096 * kMiB};
  const Slice stated{.memory = 128 * kMiB}, unstated{};
  EXPECT_EQ(memory_limit(stated, device), 192 * kMiB);
  EXPECT_EQ(memory_limit(unstated, device), device.memory);
  EXPECT_EQ(killed_by_limit(stated, device), "killed by its memory limit (memory: 128Mi)");
  EXPECT_EQ(killed_by_limit(unstated, device), "killed by its memory limit (all of cpu0: 4096Mi)");
}

// Returns what a child process can map after each limit, one after the other: "yes" or "no".
std::string can_map(Bytes size, std::initializer_list<Bytes> limits) {
  return in_child([&](int out) {
           for (const Bytes limit : limits)
             if (!limit_data(getpid(), limit).ok()) return;
           const void* at = mmap(nullptr, static_cast<size_t>(size), PROT_READ | PROT_WRITE,
                                 MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
           (void)!write(out, at == MAP_FAILED ? "no" : "yes", at == MAP_FAILED ? 2 : 3);
         })
      .said;
}

TEST(LimitData, BoundsWhatAProcessMapsFromThenOn) {
  EXPECT_EQ(can_map(64 * kMiB, {}), "yes");
  EXPECT_EQ(can_map(16 * kMiB, {32 * kMiB}), "yes");
  EXPECT_EQ(can_map(64 * kMiB, {32 * kMiB}), "no");
}

// An instance has mapped memory since the first daemon; the second grants none on top.
TEST(LimitData, ASecondDaemonKeepsTheLimit) {
  EXPECT_EQ(can_map(64 * kMiB, {32 * kMiB, 128 * kMiB}), "no");
}

}  // namespace
}  // namespace sluice::node
