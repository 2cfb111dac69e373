// What a unit of work takes on the device, as far as timings have said: per kernel (function and
// size of its grid, in powers of two), per graph, per kind of copy.
//
// Readers come from any thread without a lock; who learns or forgets has the meter's lock. Zeroed
// memory is an empty table. A table that is full forgets others: they are timed again.
#pragma once

#include <stdint.h>

namespace sluice::hook {

class UnitCosts {
 public:
  static constexpr unsigned kBits = 12;
  static constexpr unsigned kYoung = 3;  // timings until a cost is relied on

  // 0: not known well enough, or (at a first glance) not where it is looked for first. `guess` then
  // says what there is, 0 again where there is nothing.
  uint64_t expected_at_first_glance(uint64_t key) const {
    const Entry& e = entries_[home(key)];
    return __atomic_load_n(&e.key, __ATOMIC_RELAXED) == key
               ? __atomic_load_n(&e.relied_ns, __ATOMIC_RELAXED)
               : 0;
  }
  uint64_t expected(uint64_t key) const {
    const Entry* e = find(key);
    return e != nullptr ? __atomic_load_n(&e->relied_ns, __ATOMIC_RELAXED) : 0;
  }
  uint64_t guess(uint64_t key) const {
    const Entry* e = find(key);
    return e != nullptr ? e->mean_ns : 0;
  }

  // A timing: the mean of the first eight, then a moving one. A single timing counts for at most
  // four times what was expected: its thread may have been off the processor in the middle of it.
  void learn(uint64_t key, uint64_t ns);
  // A timing of a unit beside which, or before which, the device may have run others that are
  // expected to take so long. It says little: the unit took no longer; and where all of them took
  // more than twice what was expected, so did it.
  void learn_beside(uint64_t key, uint64_t ns, uint64_t others_ns);
  void forget(uint64_t key);
  // A module has gone, and the driver does not say which kernels were its: none is relied on until
  // it was timed again.
  void doubt_kernels();

 private:
  struct Entry {
    uint64_t key;  // 0: free
    uint64_t relied_ns, mean_ns;
    uint32_t timings;
  };
  static constexpr unsigned kProbes = 8;

  static unsigned home(uint64_t key) {
    return static_cast<unsigned>((key * 0x9e3779b97f4a7c15u) >> (64 - kBits));  // Fibonacci
  }
  const Entry* find(uint64_t key) const {
    for (unsigned at = home(key), i = 0; i < kProbes; ++i, at = (at + 1) % (1u << kBits)) {
      const uint64_t found = __atomic_load_n(&entries_[at].key, __ATOMIC_RELAXED);
      if (found == key) return &entries_[at];
      if (found == 0) return nullptr;
    }
    return nullptr;
  }
  static void forget(Entry& e) {
    __atomic_store_n(&e.relied_ns, 0, __ATOMIC_RELAXED);
    e.mean_ns = 0;
    e.timings = 0;
  }
  Entry& find_or_make(uint64_t key);

  Entry entries_[1u << kBits];
};

enum class CopyKind : uint8_t { kAny = 1, kToDevice, kFromDevice, kWithin, kPeer, kSet };

// Keys: a function's or a graph's address, with the size of the grid; copies have small numbers.
inline uint64_t kernel_key(const void* function, unsigned x, unsigned y, unsigned z) {
  const uint64_t blocks = static_cast<uint64_t>(x) * y * z;
  const auto size = 64 - static_cast<unsigned>(__builtin_clzll(blocks | 1));  // never 0
  return reinterpret_cast<uintptr_t>(function) << 7 | size;
}
constexpr uint64_t kGraph = 127;  // in the place of the grid's size
inline uint64_t graph_key(const void* graph) {
  return reinterpret_cast<uintptr_t>(graph) << 7 | kGraph;
}
inline bool is_kernel(uint64_t key) {
  return key >> 7 != 0 && (key & kGraph) != kGraph;
}

inline uint64_t copy_key(CopyKind kind) {
  return static_cast<uint64_t>(kind);
}

}  // namespace sluice::hook
