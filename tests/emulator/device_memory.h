// The processes that hold a device's memory, and which part. Functions over the shared tables; the
// caller has the lock.
//
// Memory is a range of a sparse file, so that processes see the same bytes, and what is not touched
// costs nothing. The range is larger than the memory: fragments never make an allocation fail, as
// behind a GPU's page tables.
#pragma once

#include <cstdint>

#include "tests/emulator/machine_state.h"

namespace sluice::emulator {

inline constexpr std::uint64_t kGranule = std::uint64_t{2} << 20;
inline constexpr std::uint64_t kSpread = 16;  // the range ÷ the memory

std::uint64_t memory_used(const MachineState& state, std::uint32_t device);
std::uint64_t memory_used_by(const MachineState& state, std::uint32_t device,
                             std::uint32_t process);

// Makes an allocation, held by `process` and charged to it. Returns kNone if too little is left.
std::uint32_t allocate(MachineState& state, std::uint32_t device, std::uint32_t process,
                       std::uint64_t bytes);
// Adds a holder. Returns kNone if the tables are full.
bool hold(MachineState& state, std::uint32_t process, std::uint32_t allocation);
// Removes a holder; the last one's removal frees the allocation, and its pages of the file.
void let_go(MachineState& state, std::uint32_t process, std::uint32_t allocation, int memory_file);
void let_go_of_all(MachineState& state, std::uint32_t process, int memory_file);
// Frees what has no holder: a process was killed after its removal and before this.
void free_all_unheld(MachineState& state, int memory_file);

}  // namespace sluice::emulator
