// Memory of a device and where a process sees it. The process's lock is held.
#pragma once

#include <algorithm>

#include "tests/emulator/driver.h"

namespace sluice::emulator {

// A device's address is a number to CUDA; here it is this process's as well.
inline char* pointer_to(std::uint64_t address) {
  return reinterpret_cast<char*>(address);  // NOLINT(performance-no-int-to-ptr)
}

// Charged to this process. If the device is full, tries once more after reaping ended processes.
CUresult take_memory(Call& call, CUdevice device, std::uint64_t bytes, std::uint32_t& allocation);
void give_back_memory(Call& call, std::uint32_t allocation);
// Its address here, and how much is mapped; 0: there is no room.
std::uint64_t map_memory(Call& call, std::uint32_t allocation, std::uint64_t& mapped);
// New memory of the current context, and its end. An entry point each: `function`.
CUresult allocate_range(const char* function, RangeKind kind, CUdeviceptr* pointer, size_t bytes);
CUresult free_range(Call& call, std::uint64_t at, RangeKind kind, RangeKind or_kind);
// The range that an address lies in, or end().
Ranges::iterator range_with(Ranges& ranges, std::uint64_t address);

}  // namespace sluice::emulator
