// A client of permits that never says what the device did for it: the daemon's own meter holds it
// all the same. On the emulated device, which judges. One-sided: noise makes it use less, never
// more.
#include <gtest/gtest.h>

#include "base/eventually_for_test.h"
#include "bench/gpu_bed.h"

namespace sluice::bench {
namespace {

constexpr int kRequest = 200;
constexpr double kAtMost = 0.25;  // and one kernel of a millisecond in each window of 20

double share_over(GpuBed& bed, policy::ClientId tenant, Nanos span) {
  SteadyClock clock;
  const Time begin = clock.now();
  const Nanos before = bed.used(tenant);
  nap(span);
  const Nanos used = bed.used(tenant) - before;
  return seconds(used) / seconds(clock.now() - begin);
}

void expect_held(const GpuProgram& program) {
  GpuBed bed;
  const policy::ClientId tenant = bed.start(program, kRequest, kRequest, HeldBy::kSilent);
  ASSERT_TRUE(eventually("32 ms of work", [&] { return bed.used(tenant) >= Millis(32); }));
  const double share = share_over(bed, tenant, Seconds(3));
  EXPECT_LE(share, kAtMost);
  EXPECT_GT(share, 0);
  EXPECT_TRUE(bed.attached(tenant));
  std::printf("share %.3f\n", share);
}

TEST(CudaSilent, AProgramThatNeverReportsUsesItsShareAndAKernelAWindowAtMost) {
  expect_held({.kernel = Millis(1)});
}
TEST(CudaSilent, SoDoesOneThatQueuesAThousandKernels) {
  expect_held({.kernel = Micros(10)});
}

// The checks above would find a device on which nobody is held.
TEST(CudaSilent, WithoutPermitsItUsesMore) {
  GpuBed bed;
  const policy::ClientId tenant =
      bed.start({.kernel = Millis(1)}, kRequest, kRequest, HeldBy::kNobody);
  const auto more = [&] { return share_over(bed, tenant, Millis(300)) > kAtMost; };
  EXPECT_TRUE(eventually("more than its share", more));
}

}  // namespace
}  // namespace sluice::bench
