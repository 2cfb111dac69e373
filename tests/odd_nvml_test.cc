// The node's watch over an NVML that behaves as the emulated one never does (nvml_for_test.c).
#include <dlfcn.h>
#include <gtest/gtest.h>

#include <mutex>

#include "base/eventually_for_test.h"
#include "node/gpu_watch.h"

namespace sluice::node {
namespace {

class OddNvml : public testing::Test {
 protected:
  OddNvml() : watch_(GpuWatch::start(SLUICE_NVML_FOR_TEST, Seconds(100))) {
    EXPECT_EQ(watch_->gpus().size(), 1U) << watch_->describe();
    watch_->on_fault([this](const GpuFault& fault) {
      const std::lock_guard lock(mutex_);
      faults_.push_back(fault);
    });
  }
  std::vector<GpuFault> faults() {
    const std::lock_guard lock(mutex_);
    return faults_;
  }

  std::mutex mutex_;
  std::vector<GpuFault> faults_;
  std::unique_ptr<GpuWatch> watch_;  // ends first: it calls back
};

// What takes the library its time must not make a process's use look later than it was.
TEST_F(OddNvml, UseIsOfTheMomentInWhichItWasStamped) {
  std::optional<DeviceUse> use;
  EXPECT_TRUE(eventually("an account of this process", [&] {
    use = watch_->account("GPU-named")->latest(getpid());
    return use.has_value();
  }));
  ASSERT_TRUE(use);
  void* library = dlopen(SLUICE_NVML_FOR_TEST, RTLD_NOW | RTLD_NOLOAD);
  ASSERT_NE(library, nullptr);
  const auto* asked = static_cast<const uint64_t*>(dlsym(library, "nvml_for_test_asked_ns"));
  EXPECT_LE(use->until, Time(Nanos(*asked)) + Micros(1)) << "stamps are in microseconds";
}

TEST_F(OddNvml, AGpuThatItHasNotNamedDoesNotFail) {
  EXPECT_TRUE(eventually("a fault", [&] { return !faults().empty(); }));
  EXPECT_EQ(faults(), (std::vector<GpuFault>{{"GPU-named", "Xid 79"}}));
}

}  // namespace
}  // namespace sluice::node
