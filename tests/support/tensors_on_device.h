// A model store's tensors on an emulated device, by the machine's own books. For tests only.
#pragma once

#include <algorithm>

#include "tests/emulator/device_memory.h"
#include "tests/emulator/machine.h"

namespace sluice {

// Returns the number of tensors of that size; memory of dead processes does not count.
inline int tensors_on_device(emulator::Machine& machine, uint64_t bytes) {
  emulator::Machine::Lock lock(machine);
  emulator::reap(*lock, machine.memory_file());
  return static_cast<int>(std::ranges::count_if(
      lock->allocations,
      [&](const emulator::Allocation& a) { return a.used && a.bytes == bytes; }));
}

}  // namespace sluice
