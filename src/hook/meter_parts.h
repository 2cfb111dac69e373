// What the sources of the meter (meter.h) share.
#pragma once

#include <errno.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "hook/lanes.h"

namespace sluice::hook {

constexpr uint64_t kMiB = 1 << 20;
constexpr uint64_t kLeastBytes = 64 << 10;  // a smaller copy says nothing about bandwidth
constexpr uint64_t kLeastNs = 1;
constexpr uint64_t kDrySlackNs = 1'000'000;  // what cannot be looked at has run by then

constexpr uint64_t kQueuedNs = 5'000;  // an event that is reached so much later stood behind work

constexpr uint64_t kNapNs = 25'000;

// The caller's errno stays.
inline void nap(uint64_t ns) {
  const int saved_errno = errno;
  const timespec time{0, static_cast<long>(ns)};
  syscall(SYS_nanosleep, &time, nullptr);
  errno = saved_errno;
}

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
