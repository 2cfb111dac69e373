// A client of permits that never says what the device did for it: the daemon's own meter holds it
// all the same. By the emulated device's log.
#include <gtest/gtest.h>

#include <cstdlib>

#include "base/eventually_for_test.h"
#include "bench/gpu_bed.h"
#include "tests/device_windows.h"

namespace sluice::bench {
namespace {

constexpr int kRequest = 200;
// What it uses beside what it is charged for is found out by the device's account alone, which says
// whole percents.
constexpr Nanos kInexact = DeviceWindows::kLong / 100;

std::unique_ptr<emulator::Machine> machine_of_the_bed() {
  return emulator::Machine::open(std::getenv("SLUICE_EMULATED_GPU"), {});
}

// Beyond its share a window may have what the program queues before it waits, and nothing else: it
// queues that under its permit, and what is queued the device does not give back. It was not to be
// counted before, for nobody says what is in flight.
void expect_held(const GpuProgram& program, Nanos queued_at_once) {
  GpuBed bed;
  const policy::ClientId tenant = bed.start(program, kRequest, kRequest, HeldBy::kSilent);
  ASSERT_TRUE(eventually("32 ms of work", [&] { return bed.used(tenant) >= Millis(32); }));
  expect_share(watch_windows(*machine_of_the_bed()), kRequest, queued_at_once, kInexact);
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

// The checks above would find a device on which nobody is held.
TEST(CudaSilent, WithoutPermitsItUsesMore) {
  GpuBed bed;
  bed.start({.kernel = Millis(1)}, kRequest, kRequest, HeldBy::kNobody);
  const auto machine = machine_of_the_bed();
  const auto more = [&] {
    const auto [begin, log] = log_over(*machine, 0, Millis(300));
    return log.busy(begin, begin + Millis(300)) > Millis(100);
  };
  EXPECT_TRUE(eventually("more than its share", more));
}

}  // namespace
}  // namespace sluice::bench
