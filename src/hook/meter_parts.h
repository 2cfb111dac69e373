// What the sources of the meter (meter.h) share.
#pragma once

#include "hook/lanes.h"
#include "wire/permit_nap.h"

namespace sluice::hook {

constexpr uint64_t kMiB = 1 << 20;
constexpr uint64_t kLeastBytes = 64 << 10;  // a smaller copy says nothing about bandwidth
constexpr uint64_t kLeastNs = 1;
constexpr uint64_t kDrySlackNs = 1'000'000;  // what cannot be looked at has run by then

constexpr uint64_t kQueuedNs = 5'000;  // an event that is reached so much later stood behind work

constexpr uint64_t kNapNs = 25'000;

// Between two looks at a word that another processor is about to write.
inline void pause_processor() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

inline uint64_t smaller(uint64_t a, uint64_t b) {
  return a < b ? a : b;
}
inline uint64_t larger(uint64_t a, uint64_t b) {
  return a > b ? a : b;
}

// Behind several units: exact where the stream had work all the time.
inline Mark several(bool exact) {
  Mark mark{};
  mark.exact = exact;
  return mark;
}

}  // namespace sluice::hook
