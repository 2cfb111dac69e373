// The node's watch reports failing GPUs, and neither blocks nor repeats itself.
#include "gpu/gpu_watch.h"

#include <gmock/gmock.h>

#include <mutex>

#include "tests/emulator/device_memory.h"
#include "tests/emulator/health.h"
#include "tests/emulator/identity.h"
#include "tests/support/emulated_gpus.h"
#include "tests/support/eventually.h"

namespace sluice::node {
namespace {

using emulator::Machine;
using emulator::uuid_text;

class Watch : public EmulatedGpus {
 protected:
  void start(const char* settings) {
    make(settings);
    watch_ = GpuWatch::start(SLUICE_EMULATED_NVML, Seconds(100));
    ASSERT_FALSE(watch_->gpus().empty()) << watch_->describe();
    watch_->on_fault([this](const GpuFault& fault) {
      const std::lock_guard lock(mutex_);
      faults_.push_back(fault);
    });
  }
  std::vector<GpuFault> faults() {
    const std::lock_guard lock(mutex_);
    return faults_;
  }
  void wait_for_faults(size_t count) {
    EXPECT_TRUE(eventually("a fault", [&] { return faults().size() >= count; }));
  }

  std::mutex mutex_;
  std::vector<GpuFault> faults_;
  std::unique_ptr<GpuWatch> watch_;  // ends first: it calls back
};

TEST_F(Watch, FindsTheGpusAndTheirLoad) {
  start("devices=2 memory_mib=1024");
  EXPECT_EQ(watch_->gpus().size(), 2U);
  EXPECT_EQ(watch_->describe(), "2 GPUs, driver 580.00");
  const uint32_t me = machine_->join(1000);
  {
    const Machine::Lock lock(*machine_);
    emulator::allocate(*lock, 1, me, 100 << 20);
  }
  EXPECT_TRUE(eventually("100 MiB of GPU 1 in use",
                         [&] { return watch_->loads()[uuid_text(1)].memory_used == 100 << 20; }));
}

TEST_F(Watch, HasTheOccupancyOfItsLastPeriod) {
  start("devices=1 sms=132");
  {
    const Machine::Lock lock(*machine_);
    emulator::DeviceModel& model = lock->devices[0];
    const uint32_t client = model.add_client(static_cast<uint32_t>(getpid()), 1000);
    model.launch(model.open_stream(client, 0, emulator::StreamKind::kNonBlocking),
                 {.blocks = 66, .wave_ns = 600'000'000'000});
  }
  EXPECT_TRUE(eventually("half of the SMs",
                         [&] { return watch_->loads()[uuid_text(0)].sm_occupancy == Share{500}; }));
}

TEST_F(Watch, KeepsTheAccountOfAProcess) {
  start("devices=1");
  const uint32_t me = machine_->join(1000);
  {
    const Machine::Lock lock(*machine_);
    emulator::DeviceModel& model = lock->devices[0];
    const uint32_t client = model.add_client(static_cast<uint32_t>(getpid()), 1000);
    lock->processes[me].client[0] = client;
    model.launch(model.open_stream(client, 0, emulator::StreamKind::kNonBlocking),
                 {.wave_ns = 600'000'000'000});
  }
  const auto account = watch_->account(uuid_text(0));
  std::optional<DeviceUse> use;
  const auto all_of_it = [&] {
    use = account->latest(getpid());
    return use && use->busy + use->resolution >= use->until - use->from;
  };
  ASSERT_TRUE(eventually("an account of a busy time", all_of_it));
  EXPECT_GE(use->until - use->from, Millis(100));
  EXPECT_LE(use->until, SteadyClock().now());
  EXPECT_FALSE(account->latest(getpid() + 1));
  EXPECT_FALSE(watch_->account("another")->latest(getpid()));
}

TEST_F(Watch, TellsTheMemoryOfAProcess) {
  for (const char* settings : {"devices=2 memory_mib=1024", "memory_mib=1024 shared=1"}) {
    start(settings);
    const uint32_t me = machine_->join(1000);
    {
      const Machine::Lock lock(*machine_);
      emulator::DeviceModel& model = lock->devices[0];
      lock->processes[me].client[0] = model.add_client(static_cast<uint32_t>(getpid()), 1000);
      emulator::allocate(*lock, 0, me, 100 << 20);
    }
    const auto account = watch_->account(uuid_text(0));
    std::optional<DeviceMemory> memory;
    EXPECT_TRUE(eventually("100 MiB of mine", [&] {
      memory = account->memory(getpid());
      return memory && memory->bytes == 100 << 20;
    })) << settings;
    EXPECT_LE(memory->at, SteadyClock().now());
    EXPECT_EQ(account->memory(getpid() + 1)->bytes, 0);
    EXPECT_FALSE(watch_->account("another")->memory(getpid()));
    watch_.reset();
    machine_.reset();
    std::filesystem::remove(folder_ + "/gpu");
  }
}

TEST_F(Watch, TellsAnXidOnceAndNotThoseOfPrograms) {
  start("devices=2");
  {
    const Machine::Lock lock(*machine_);
    raise_xid(*lock, 0, 13);
    raise_xid(*lock, 0, 31);
    raise_xid(*lock, 1, 79);
    raise_xid(*lock, 1, 79);
    raise_xid(*lock, 0, 48);
  }
  wait_for_faults(2);
  EXPECT_EQ(faults(), (std::vector<GpuFault>{{uuid_text(1), "Xid 79"}, {uuid_text(0), "Xid 48"}}));
}

TEST_F(Watch, TellsErrorsThatEccCannotCorrect) {
  start("devices=2");
  {
    const Machine::Lock lock(*machine_);
    raise_ecc_error(*lock, 1);
  }
  wait_for_faults(1);
  EXPECT_EQ(faults().front(), (GpuFault{uuid_text(1), std::string(kUncorrected)}));
}

TEST_F(Watch, TellsAGpuThatIsLost) {
  start("devices=2");
  {
    const Machine::Lock lock(*machine_);
    lose(*lock, 0);
  }
  wait_for_faults(1);
  EXPECT_EQ(faults().front().uuid, uuid_text(0));
  EXPECT_THAT(faults().front().why, testing::HasSubstr("it is lost"));
}

TEST_F(Watch, ANvmlThatIsNotThereIsSaid) {
  watch_ = GpuWatch::start("/nowhere/libnvidia-ml.so.1");
  EXPECT_TRUE(watch_->gpus().empty());
  EXPECT_THAT(watch_->describe(), testing::StartsWith("no GPU: /nowhere/libnvidia-ml.so.1"));
}

// Held up by the machine's lock, as a driver holds up a caller that asks about a hung GPU.
TEST_F(Watch, ANvmlThatHangsIsNotWaitedFor) {
  make("devices=1");
  std::unique_ptr<Machine::Lock> hanging = std::make_unique<Machine::Lock>(*machine_);
  watch_ = GpuWatch::start(SLUICE_EMULATED_NVML, Millis(1));
  EXPECT_TRUE(watch_->gpus().empty());
  EXPECT_THAT(watch_->describe(), testing::EndsWith("does not answer"));
  hanging.reset();
}

}  // namespace
}  // namespace sluice::node
