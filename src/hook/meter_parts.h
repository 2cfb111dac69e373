// What the sources of the meter (meter.h) share.
#pragma once

#include "hook/lanes.h"
#include "hook/unit_costs.h"
#include "wire/permit_nap.h"

namespace sluice::hook {

constexpr uint64_t kMiB = 1 << 20;
constexpr uint64_t kLeastBytes = 64 << 10;  // a smaller copy says nothing about bandwidth
constexpr uint64_t kLeastNs = 1;
constexpr uint64_t kDrySlackNs = 1'000'000;  // what cannot be looked at has run by then
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

inline uint64_t per_mib(uint64_t ns, uint64_t bytes) {
  return larger(static_cast<uint64_t>(static_cast<double>(ns) * kMiB / static_cast<double>(bytes)),
                kLeastNs);
}

// Where nothing times a unit, how long it was waited for is at least what it took.
inline void learn_by_waiting(UnitCosts& costs, const Lane& lane, uint64_t now) {
  if (lane.only_unit() != 0 && !lane.held_up)
    costs.learn_beside(lane.only_unit(), smaller(now - lane.touched_ns, kInFlightNs));
}

}  // namespace sluice::hook
