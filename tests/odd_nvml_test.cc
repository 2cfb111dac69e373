// The node's watch over an NVML that misbehaves in ways in which the emulated one does not
// (odd_nvml.c).
#include <dlfcn.h>
#include <gtest/gtest.h>

#include <mutex>

#include "gpu/gpu_watch.h"
#include "tests/support/eventually.h"

namespace sluice::node {
namespace {

constexpr Nanos kStamp = Micros(1);  // the unit of NVML's time stamps

class OddNvml : public testing::Test {
 protected:
  OddNvml() : watch_(GpuWatch::start(SLUICE_ODD_NVML, Seconds(100))) {
    EXPECT_EQ(watch_->gpus().size(), 1U) << watch_->describe();
    watch_->on_fault([this](const GpuFault& fault) {
      const std::lock_guard lock(mutex_);
      faults_.push_back(fault);
    });
  }
  // Returns a moment that the library recorded.
  static Time moment(const char* name) {
    void* library = dlopen(SLUICE_ODD_NVML, RTLD_NOW | RTLD_NOLOAD);
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

// A slow library must not make a process's use look later than it was.
TEST_F(OddNvml, UseIsOfTheMomentInWhichItWasStamped) {
  std::optional<DeviceUse> use;
  EXPECT_TRUE(eventually("an account of this process", [&] {
    use = watch_->account("GPU-named")->latest(getpid());
    return use.has_value();
  }));
  ASSERT_TRUE(use);
  EXPECT_LE(use->until, moment("odd_nvml_asked_ns") + kStamp);
}

// The first use reported after an idle poll is of the time since that poll, or up to a second
// before it: use in that second may not have been reported yet.
TEST_F(OddNvml, UseBeginsWhenNobodyHadUsedAny) {
  std::optional<DeviceUse> use;
  EXPECT_TRUE(eventually("an account of this process", [&] {
    use = watch_->account("GPU-named")->latest(getpid());
    return use.has_value();
  }));
  ASSERT_TRUE(use);
  EXPECT_LE(use->from, moment("odd_nvml_first_ns") + kStamp);
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
