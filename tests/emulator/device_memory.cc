#include "tests/emulator/device_memory.h"

#include <fcntl.h>

#include "device_model/commit.h"

namespace sluice::emulator {
namespace {
std::uint64_t range_of(const MachineState& state) {
  return state.spec.memory * kSpread;
}

// The first gap of a device's range that is long enough; the range is much larger than what can be
// taken.
std::uint64_t gap(const MachineState& state, std::uint32_t device, std::uint64_t bytes) {
  std::uint64_t at = range_of(state) * device;
  for (bool moved = true; moved;) {
    moved = false;
    for (const Allocation& a : state.allocations)
      if (a.used && a.device == device && at < a.offset + a.bytes && a.offset < at + bytes) {
        at = a.offset + a.bytes;
        moved = true;
      }
  }
  return at;
}

bool held(const MachineState& state, std::uint32_t allocation) {
  for (const Holding& h : state.holdings)
    if (h.used && h.allocation == allocation) return true;
  return false;
}

void free_unheld(MachineState& state, std::uint32_t allocation, int memory_file) {
  Allocation& a = state.allocations[allocation];
  if (!a.used || held(state, allocation)) return;
  fallocate(memory_file, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, static_cast<off_t>(a.offset),
            static_cast<off_t>(a.bytes));
  a.used = false;
}
}  // namespace

std::uint64_t memory_used(const MachineState& state, std::uint32_t device) {
  std::uint64_t sum = 0;
  for (const Allocation& a : state.allocations)
    if (a.used && a.device == device) sum += a.bytes;
  return sum;
}

std::uint64_t memory_used_by(const MachineState& state, std::uint32_t device,
                             std::uint32_t process) {
  std::uint64_t sum = 0;
  for (const Allocation& a : state.allocations)
    if (a.used && a.device == device && a.owner == process) sum += a.bytes;
  return sum;
}

std::uint32_t allocate(MachineState& state, std::uint32_t device, std::uint32_t process,
                       std::uint64_t bytes) {
  if (bytes > state.spec.memory) return DeviceModel::kNone;
  bytes = (bytes + kGranule - 1) / kGranule * kGranule;
  if (memory_used(state, device) + bytes > state.spec.memory) return DeviceModel::kNone;
  for (std::uint32_t id = 0; id < kAllocations; ++id) {
    Allocation& a = state.allocations[id];
    if (a.used) continue;
    a.offset = gap(state, device, bytes);
    a.bytes = bytes;
    a.device = device;
    a.owner = process;
    ++a.generation;
    if (!hold(state, process, id)) return DeviceModel::kNone;
    commit();
    a.used = true;
    return id;
  }
  return DeviceModel::kNone;
}

bool hold(MachineState& state, std::uint32_t process, std::uint32_t allocation) {
  for (Holding& h : state.holdings) {
    if (h.used) continue;
    h.process = process;
    h.allocation = allocation;
    commit();
    h.used = true;
    return true;
  }
  return false;
}

void let_go(MachineState& state, std::uint32_t process, std::uint32_t allocation, int memory_file) {
  for (Holding& h : state.holdings)
    if (h.used && h.process == process && h.allocation == allocation) {
      h.used = false;
      commit();
      free_unheld(state, allocation, memory_file);
      return;
    }
}

void let_go_of_all(MachineState& state, std::uint32_t process, int memory_file) {
  for (Holding& h : state.holdings) {
    if (!h.used || h.process != process) continue;
    h.used = false;
    commit();
    free_unheld(state, h.allocation, memory_file);
  }
}

void free_all_unheld(MachineState& state, int memory_file) {
  for (std::uint32_t id = 0; id < kAllocations; ++id) free_unheld(state, id, memory_file);
}

}  // namespace sluice::emulator
