// commit: orders writes to the shared device. A process may be killed at any instruction; what it
// wrote before a commit is then there if anything written after it is.
#pragma once

#include <atomic>

namespace sluice::emulator {

inline void commit() {
  std::atomic_signal_fence(std::memory_order_seq_cst);
}

}  // namespace sluice::emulator
