// A driver of one's own, for the hook's tests: has every entry point, does nothing, and writes down
// what it was called with. A few answer, where they are given a pointer. What it knows lies in
// `driver_for_test`, which a test finds by dlsym and may write.
#pragma once

#include "hook/entry_points.h"

namespace sluice::hook {

constexpr int kWords = 14;  // more than any entry point has
constexpr int kReals = 8;   // as many as go into registers

struct Call {
  unsigned entry;
  unsigned long words[kWords];
  double reals[kReals];
};

struct DriverForTest {
  Call last;        // not of those that answer
  unsigned calls;   // of all threads
  int devices = 1;  // cuDeviceGetCount
  int current = 0;  // cuCtxGetDevice
  void* capturing;  // the stream that captures
};

// What an entry point returns when it was merely called: no value of CUresult.
constexpr int returned_by(unsigned entry) {
  return 100000 + static_cast<int>(entry);
}

}  // namespace sluice::hook
