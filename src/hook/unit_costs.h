// What a unit of work takes on the device when nothing else runs there, as far as timings have
// said: per kernel (function and size of its grid, in powers of two), per graph, per kind of copy.
//
// A cost is the mean of the timings of times in which no other client had work (the first eight,
// then a moving mean). Not the least: a kernel's arguments change what it takes (ResNet-50's
// kernels would be charged 92 % of their time, bench/data). Until there is such a timing, it is the
// least of the last 8 to 16 others: neighbours only ever make a unit seem longer.
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
  static constexpr unsigned kRow = 8;    // timings whose least is kept

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
    return e != nullptr ? e->guess() : 0;
  }

  // Whether another timing of it says something new. alone: no other client has work now.
  bool wants(uint64_t key, bool alone) const {
    const Entry* e = find(key);
    return e == nullptr || e->known < kYoung || e->doubted || (alone && e->timings < kYoung);
  }
  // Of a time in which no other client had work. A single timing counts for at most four times what
  // was expected: its thread may have been off the processor in the middle of it.
  void learn(uint64_t key, uint64_t ns);
  // Of any other.
  void learn_beside(uint64_t key, uint64_t ns);
  void forget(uint64_t key);
  // A module has gone, and the driver does not say which kernels were its: none is relied on until
  // it was timed again.
  void doubt_kernels();

 private:
  struct Entry {
    uint64_t guess() const;

    uint64_t key;  // 0: free
    uint64_t relied_ns, mean_ns;
    uint64_t least_ns, before_ns;  // of the other timings of this row, and of the row before
    uint8_t timings;               // in the mean, up to eight
    uint8_t in_row, known;         // other timings in this row; timings of all kinds, up to kYoung
    bool doubted;                  // it may be another kernel's by now
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
  static void begin_anew(Entry& e) {
    e.mean_ns = e.least_ns = e.before_ns = 0;
    e.timings = e.in_row = e.known = 0;
    e.doubted = false;
  }
  static void rely_on(Entry& e);
  static void forget(Entry& e) {
    __atomic_store_n(&e.relied_ns, 0, __ATOMIC_RELAXED);
    begin_anew(e);
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
