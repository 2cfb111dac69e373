// The node's watch over an NVML that behaves as the emulated one never does (nvml_for_test.c).
#include <dlfcn.h>
#include <gtest/gtest.h>

#include <mutex>

#include "base/eventually_for_test.h"
#include "node/gpu_watch.h"

namespace sluice::node {
namespace {

constexpr Nanos kStamp = Micros(1);  // by which NVML tells moments

class OddNvml : public testing::Test {
 protected:
  OddNvml() : watch_(GpuWatch::start(SLUICE_NVML_FOR_TEST, Seconds(100))) {
    EXPECT_EQ(watch_->gpus().size(), 1U) << watch_->describe();
    watch_->on_fault([this](const GpuFault& fault) {
      const std::lock_guard lock(mutex_);
      faults_.push_back(fault);
    });
  }
  // A moment that the library has written down.
  static Time moment(const char* name) {
    void* library = dlopen(SLUICE_NVML_FOR_TEST, RTLD_NOW | RTLD_NOLOAD);
    SLUICE_CHECK(library != nullptr, "the watch has opened it");
    return Time(Nanos(*static_cast<const uint64_t*>(dlsym(library, name))));
  }
  std::vector<GpuFault> faults() {
    const std::lock_guard lock(mutex_);
    return faults_;
  }

  const Time began_ = SteadyClock().now();
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
  EXPECT_LE(use->until, moment("nvml_for_test_asked_ns") + kStamp);
}

// The first that is told after a while in which nobody used anything is of the time since then, but
// for a second, in which what was used may not have been told yet.
TEST_F(OddNvml, UseBeginsWhenNobodyHadUsedAny) {
  std::optional<DeviceUse> use;
  EXPECT_TRUE(eventually("an account of this process", [&] {
    use = watch_->account("GPU-named")->latest(getpid());
    return use.has_value();
  }));
  ASSERT_TRUE(use);
  EXPECT_LE(use->from, moment("nvml_for_test_first_ns") + kStamp);
  EXPECT_GT(use->from, began_ - Seconds(1));
}

TEST_F(OddNvml, MemoryThatItDoesNotKnowIsNotToldAndNoFault) {
  EXPECT_EQ(watch_->gpus()[0].memory, 1 << 30);
  EXPECT_TRUE(eventually(
      "a second look", [&] { return watch_->account("GPU-named")->latest(getpid()).has_value(); }));
  EXPECT_TRUE(watch_->loads().empty());
  for (const GpuFault& fault : faults()) EXPECT_EQ(fault.why, "Xid 79");
}

TEST_F(OddNvml, AGpuThatItHasNotNamedDoesNotFail) {
  EXPECT_TRUE(eventually("a fault", [&] { return !faults().empty(); }));
  EXPECT_EQ(faults(), (std::vector<GpuFault>{{"GPU-named", "Xid 79"}}));
}

}  // namespace
}  // namespace sluice::node
