// How long a call takes, by the processor's monotonic clock.
#pragma once

#include "wire/permit.h"

namespace sluice::bench {

inline uint64_t now_ns() {
  return sluice_clock(CLOCK_MONOTONIC);
}

// Returns the ns per call of so many, one behind the other.
template <class Call>
double ns_each(int times, Call call) {
  const uint64_t start = now_ns();
  for (int i = 0; i < times; ++i) call();
  return static_cast<double>(now_ns() - start) / times;
}

}  // namespace sluice::bench
