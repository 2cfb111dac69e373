// A driver for the hook's tests: it has every entry point, does nothing, and records its calls. A
// few entry points answer through a given pointer. Its state is `recording_driver`, which a test
// finds by dlsym and may write.
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

struct RecordingDriver {
  Call last;        // except of those that answer
  unsigned calls;   // of all threads
  int devices = 1;  // cuDeviceGetCount
  int current = 0;  // cuCtxGetDevice
  void* capturing;  // the stream that captures
};

// What an entry point returns that only records: no value of CUresult.
constexpr int returned_by(unsigned entry) {
  return 100000 + static_cast<int>(entry);
}

}  // namespace sluice::hook
