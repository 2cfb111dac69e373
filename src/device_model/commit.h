// commit: a process may be killed at any instruction, so what was written to the shared device
// before this stands before what comes after.
#pragma once

#include <atomic>

namespace sluice::emulator {

inline void commit() {
  std::atomic_signal_fence(std::memory_order_seq_cst);
}

}  // namespace sluice::emulator
