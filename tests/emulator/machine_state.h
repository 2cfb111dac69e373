// What the processes that use one emulated machine share: the layout of the mapped file. Flat
// values of fixed size, no pointers; everything under `mutex`. A process may be killed at any
// instruction inside the lock: an entry is taken by writing it whole and then setting `used`, given
// back by clearing `used`; the model repairs itself.
#pragma once

#include <pthread.h>

#include <array>
#include <cstdint>

#include "device_model/device_model.h"

namespace sluice::emulator {

inline constexpr std::uint32_t kDevices = 4, kProcesses = 512, kAllocations = 16384,
                               kHoldings = 32768, kInjections = 16, kHealthEvents = 64;

struct MachineSpec {
  std::uint32_t devices = 1;
  DeviceSpec device;
  std::uint32_t small = 0, small_sms = 66;  // so many, the last ones, are of a smaller type
  std::uint64_t memory = std::uint64_t{80} << 30;
  std::uint64_t context_memory = std::uint64_t{256} << 20;  // each context costs so much
  std::uint32_t nvlinks = 0;                                // between each two devices
  bool virtual_clock = false;
  bool mig = false;  // NVML says so; the devices stay whole

  bool is_small(std::uint32_t number) const { return number + small >= devices; }
  DeviceSpec spec_of(std::uint32_t number) const {
    DeviceSpec spec = device;
    if (is_small(number)) spec.sms = small_sms;
    return spec;
  }
};

// Identified by pid and start time, so that a pid that is used again is another process.
struct Process {
  bool used;
  std::int32_t pid;
  std::uint64_t start_ticks;
  std::uint32_t sm_permille;
  // In each device's model; kNone before its first context there.
  std::array<std::uint32_t, kDevices> client;
};

// An allocation of a device's memory, as a range of the memory file; it lives while it has a
// holder.
struct Allocation {
  bool used;
  std::uint32_t generation, device, owner;  // owner: the process that it is charged to
  std::uint64_t offset, bytes;
};
struct Holding {
  bool used;
  std::uint32_t process, allocation;
};

// A call that is to fail: the `skip`-th call of `function` from now, and the `times` − 1 after it.
struct Injection {
  bool used;
  std::int32_t pid;  // 0: any process
  std::int32_t result;
  std::uint32_t skip, times;
  char function[48];
};

// A device's faults as NVML reports them: events in NVML's words, the newest of them kept.
struct Health {
  bool lost;
  std::uint64_t uncorrected_errors;
};
struct HealthEvent {
  std::uint32_t device;
  std::uint64_t type, data;
};

struct MachineState {
  std::uint64_t magic, size;
  MachineSpec spec;
  pthread_mutex_t mutex;
  Ns virtual_now;
  std::uint32_t injections_waiting;
  std::array<Injection, kInjections> injections;
  std::uint32_t events_happened;  // a futex word
  std::array<HealthEvent, kHealthEvents> events;
  std::array<Health, kDevices> health;
  std::array<Process, kProcesses> processes;
  std::array<Allocation, kAllocations> allocations;
  std::array<Holding, kHoldings> holdings;
  std::array<DeviceModel, kDevices> devices;
};

}  // namespace sluice::emulator
