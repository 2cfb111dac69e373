// The emulated machine and its processes: what they share, and what is left of a process that died.
#include "tests/emulator/machine.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>

#include "tests/emulator/device_memory.h"
#include "tests/support/emulated_machine.h"

namespace sluice::emulator {
namespace {
class MachineTest : public MachineFixture {
 protected:
  // A client that keeps its queue full.
  [[noreturn]] static void submit_for_ever(Machine& machine) {
    const std::uint32_t me = machine.join(1000);
    std::uint32_t stream = 0;
    {
      Machine::Lock lock(machine);
      DeviceModel& device = lock->devices[0];
      lock->processes[me].client[0] = device.add_client(static_cast<std::uint32_t>(getpid()), 1000);
      stream = device.open_stream(lock->processes[me].client[0], 0, StreamKind::kNonBlocking);
    }
    for (;;) {
      Machine::Lock lock(machine);
      DeviceModel& device = lock->devices[0];
      if (device.queued(stream) < 100) device.launch(stream, {.blocks = 3, .wave_ns = 100});
    }
  }
  static void ended(pid_t pid) { EXPECT_EQ(waitpid(pid, nullptr, 0), pid); }
};

TEST_F(MachineTest, TheFirstMakesItAndTheOthersSeeTheSame) {
  auto machine = open("devices=2 sms=8 memory_mib=64 clock=virtual");
  auto again = open("devices=1 sms=4");
  EXPECT_EQ(again->spec().devices, 2U);
  EXPECT_EQ(again->spec().device.sms, 8U);
  Machine::Lock lock(*machine);
  lock->virtual_now = 7;
  EXPECT_TRUE(again->spec().virtual_clock);
}

TEST(Settings, NameTheWordThatIsWrong) {
  MachineSpec spec;
  std::string why;
  EXPECT_FALSE(read_settings("sms=8 colour=blue", spec, why));
  EXPECT_EQ(why, "colour=blue");
  EXPECT_FALSE(read_settings("devices=5", spec, why));
  EXPECT_FALSE(read_settings("sms=", spec, why));
  EXPECT_TRUE(read_settings("", spec, why));
}

TEST_F(MachineTest, AVirtualClockMovesFromChangeToChange) {
  auto machine = open("sms=8 clock=virtual");
  std::uint32_t stream = 0;
  {
    Machine::Lock lock(*machine);
    DeviceModel& device = lock->devices[0];
    stream = device.open_stream(device.add_client(1, 1000), 0, StreamKind::kNonBlocking);
    device.launch(stream, {.blocks = 16, .wave_ns = 1000});
  }
  EXPECT_TRUE(machine->wait([&](MachineState& s) { return s.devices[0].queued(stream) == 0; }));
  EXPECT_FALSE(machine->wait([&](MachineState&) { return false; })) << "nothing is left to happen";
  Machine::Lock lock(*machine);
  EXPECT_EQ(lock->devices[0].now(), 2000);
}

TEST_F(MachineTest, MemoryIsCountedInGranulesUpToTheDevices) {
  auto machine = open("memory_mib=64 clock=virtual");
  const auto me = machine->join(1000);
  Machine::Lock lock(*machine);
  const auto one = allocate(*lock, 0, me, 1);
  EXPECT_EQ(memory_used(*lock, 0), kGranule);
  const auto rest = allocate(*lock, 0, me, 62 * kMib);
  ASSERT_NE(rest, DeviceModel::kNone);
  EXPECT_EQ(allocate(*lock, 0, me, 1), DeviceModel::kNone);
  EXPECT_EQ(allocate(*lock, 0, me, ~std::uint64_t{0}), DeviceModel::kNone);
  let_go(*lock, me, one, machine->memory_file());
  EXPECT_EQ(memory_used(*lock, 0), 62 * kMib);
  EXPECT_NE(allocate(*lock, 0, me, 2 * kMib), DeviceModel::kNone);
}

TEST_F(MachineTest, FragmentsDoNotMakeAnAllocationFail) {
  auto machine = open("memory_mib=64 clock=virtual");
  const auto me = machine->join(1000);
  Machine::Lock lock(*machine);
  std::vector<std::uint32_t> pieces;
  for (int i = 0; i < 32; ++i) pieces.push_back(allocate(*lock, 0, me, 2 * kMib));
  for (int i = 0; i < 32; i += 2) let_go(*lock, me, pieces[i], machine->memory_file());
  EXPECT_NE(allocate(*lock, 0, me, 32 * kMib), DeviceModel::kNone);
}

TEST_F(MachineTest, AKilledProcessLeavesItsMemoryToTheNextWhoLooks) {
  auto machine = open("memory_mib=64 clock=virtual");
  ended(child([&] {
    const auto me = machine->join(1000);
    Machine::Lock lock(*machine);
    allocate(*lock, 0, me, 64 * kMib);
    raise(SIGKILL);  // inside the lock
  }));
  const auto me = machine->join(1000);
  Machine::Lock lock(*machine);
  reap(*lock, machine->memory_file());
  EXPECT_EQ(memory_used(*lock, 0), 0U);
  EXPECT_NE(allocate(*lock, 0, me, 64 * kMib), DeviceModel::kNone);
}

TEST_F(MachineTest, KilledWhileItFreesItsMemoryIsFreed) {
  auto machine = open("memory_mib=64 clock=virtual");
  ended(child([&] {
    const auto me = machine->join(1000);
    Machine::Lock lock(*machine);
    allocate(*lock, 0, me, 64 * kMib);
    for (Holding& h : lock->holdings) h.used = false;
    raise(SIGKILL);  // before the allocation itself is free
  }));
  EXPECT_EQ(memory_in_use(*machine, 0), 0U);
}

TEST_F(MachineTest, WhatAnotherHoldsOutlivesItsOwner) {
  auto machine = open("memory_mib=64 clock=virtual");
  const auto me = machine->join(1000);
  ended(child([&] {
    const auto owner = machine->join(1000);
    Machine::Lock lock(*machine);
    hold(*lock, me, allocate(*lock, 0, owner, 8 * kMib));
  }));
  Machine::Lock lock(*machine);
  reap(*lock, machine->memory_file());
  EXPECT_EQ(memory_used(*lock, 0), 8 * kMib);
  let_go_of_all(*lock, me, machine->memory_file());
  EXPECT_EQ(memory_used(*lock, 0), 0U);
}

// Clients that launch as fast as they can are stopped, one of three at a time: the others go on.
TEST_F(MachineTest, StoppedOutsideTheLockNobodyElseIsHeldUp) {
  auto machine = open("sms=8 shared=1");
  const pid_t clients[] = {child([&] { submit_for_ever(*machine); }),
                           child([&] { submit_for_ever(*machine); }),
                           child([&] { submit_for_ever(*machine); })};
  const auto runs = [&](pid_t client) {
    const std::uint64_t from = (Machine::Lock(*machine))->devices[0].log_end();
    return machine->wait([&](MachineState& state) {
      const DeviceModel& device = state.devices[0];
      std::uint64_t i =
          std::max(from, device.log_end() - std::min(device.log_end(), DeviceModel::kLog));
      for (; i < device.log_end(); ++i)
        if (device.stretch(i).process == static_cast<std::uint32_t>(client)) return true;
      return false;
    });
  };
  for (int round = 0; round < 30; ++round) {
    const pid_t stopped = clients[round % 3];
    ASSERT_TRUE(runs(stopped));
    ASSERT_TRUE(stop(*machine, stopped));
    EXPECT_TRUE(runs(clients[(round + 1) % 3]));
    EXPECT_TRUE(runs(clients[(round + 2) % 3]));
    kill(stopped, SIGCONT);
  }
  for (const pid_t client : clients) {
    kill(client, SIGKILL);
    ended(client);
  }
}

// Clients that launch as fast as they can are killed wherever they happen to be.
TEST_F(MachineTest, KilledAnywhereTheDeviceGoesOn) {
  auto machine = open("sms=8 shared=1");
  for (int round = 0; round < 60; ++round) {
    const pid_t a = child([&] { submit_for_ever(*machine); }),
                b = child([&] { submit_for_ever(*machine); });
    const std::uint64_t seen = (Machine::Lock(*machine))->devices[0].log_end();
    ASSERT_TRUE(machine->wait(
        [&](MachineState& s) { return s.devices[0].log_end() > seen + 200 + 7 * round; }));
    kill(a, SIGKILL);
    kill(b, SIGKILL);
    ended(a);
    ended(b);
  }
  {
    Machine::Lock lock(*machine);
    reap(*lock, machine->memory_file());
  }
  EXPECT_TRUE(machine->wait([](MachineState& s) { return s.devices[0].room(DeviceModel::kOps); }));
  Machine::Lock lock(*machine);
  EXPECT_EQ(lock->devices[0].add_client(1, 1000), 0U) << "all clients are gone";
}

}  // namespace
}  // namespace sluice::emulator
