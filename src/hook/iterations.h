// Which of a program's waits ends an iteration (a batch, a training step), so that arbiters can
// tell whether its iterations have become slow. A program says nothing of them; what is seen are
// *stretches*: from a thread's first launch after it waited for the device until it has waited
// again. Two things keep stretches from being taken for what they are not:
//   - A program waits several times in an iteration (PyTorch at each `.item()`). Only stretches
//     that carry at least a quarter of the most work of one lately are iterations, so that the long
//     ones stand for the program, and a look at a single number counts for nothing.
//   - What carries more work takes longer, and is not slower. So each iteration has a *kind*, by
//     its work, and compares with those of its kind alone.
// Work is what the launches were expected to take. A stretch that lasted a second says nothing: a
// program that never waits, or works on without an end, is not slow.
//
// Pure; zeros are one that has seen nothing. Its owner keeps threads apart.
#pragma once

#include <stdint.h>

namespace sluice::hook {

// A stretch that is under way.
struct Stretch {
  uint64_t begun_ns;  // 0: none is
  uint64_t work_ns;   // of its thread until then
};

class Iterations {
 public:
  static constexpr uint64_t kUnknownNs = 1'000'000'000;
  static constexpr uint64_t kRememberedNs = 1'000'000'000;  // to twice as long

  // A stretch has ended now. Whether it is an iteration.
  bool is_one(uint64_t cycle_ns, uint64_t work_ns, uint64_t now) {
    if (now - since_ns_ >= kRememberedNs) {
      most_before_ns_ = now - since_ns_ < 2 * kRememberedNs ? most_ns_ : 0;
      most_ns_ = 0;
      since_ns_ = now;
    }
    if (work_ns > most_ns_) most_ns_ = work_ns;
    const uint64_t most = most_ns_ > most_before_ns_ ? most_ns_ : most_before_ns_;
    return work_ns != 0 && 4 * work_ns >= most && cycle_ns < kUnknownNs;
  }

  // The same for amounts of work that differ by less than a fifth or so: four in each octave.
  static uint32_t kind_of(uint64_t work_ns) {
    if (work_ns < 4) return static_cast<uint32_t>(work_ns);
    const auto octave = static_cast<uint32_t>(63 - __builtin_clzll(work_ns));
    return 4 * octave + static_cast<uint32_t>(work_ns >> (octave - 2) & 3);
  }

 private:
  uint64_t most_ns_, most_before_ns_;  // of the work of one stretch
  uint64_t since_ns_;                  // most_ns_ is of what ended then, or later
};

}  // namespace sluice::hook
