// A client of permits that never reports: the daemon's own meter holds it all the same. Judged by
// the emulated device's log.
#include <gtest/gtest.h>

#include <cstdlib>

#include "tests/support/device_windows.h"
#include "tests/support/eventually.h"
#include "tests/support/gpu_bed.h"

namespace sluice::bench {
namespace {

constexpr int kRequest = 200;

// In a window it may also use what it queues before it waits: it queues that under its permit, the
// device does not give it back, and no process reports what is in flight. Use beyond its charges is
// charged once it is 200 ms in sum (gpu/usage_audit.h); 2 % of the device bounds it here.
void expect_held(const GpuProgram& program, Nanos queued_at_once) {
  GpuBed bed;
  const policy::ClientId tenant = bed.start(program, kRequest, kRequest, HeldBy::kSilent);
  ASSERT_TRUE(eventually("32 ms of work", [&] { return bed.used(tenant) >= Millis(32); }));
  const auto machine = emulator::Machine::open(std::getenv("SLUICE_EMULATED_GPU"), {});
  expect_share(watch_windows(*machine), kRequest, queued_at_once, DeviceWindows::kLong / 50);
  EXPECT_TRUE(bed.attached(tenant));
}

TEST(CudaSilent, AProgramThatNeverReportsUsesItsShareAndAKernelAWindowAtMost) {
  expect_held({.load = "patient", .kernel = Millis(1)}, Millis(1));
}
TEST(CudaSilent, OneThatQueuesTenKernelsUsesItsShareAndTheseAtMost) {
  expect_held({.kernel = Millis(1)}, Millis(10));
}
TEST(CudaSilent, OneThatQueuesAThousandKernelsUsesItsShareAndTheseAtMost) {
  expect_held({.kernel = Micros(10)}, Millis(10));
}

// The checks above would find a device on which no program is held.
TEST(CudaSilent, WithoutPermitsItUsesMore) {
  GpuBed bed;
  bed.start({.kernel = Millis(1)}, kRequest, kRequest, HeldBy::kNobody);
  const auto machine = emulator::Machine::open(std::getenv("SLUICE_EMULATED_GPU"), {});
  EXPECT_TRUE(eventually("more than its share", [&] {
    const auto [begin, log] = log_over(*machine, 0, Millis(300));
    return log.busy(begin, begin + Millis(300)) > Millis(100);
  }));
}

}  // namespace
}  // namespace sluice::bench
