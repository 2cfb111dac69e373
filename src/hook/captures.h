// Whether a stream captures: what is launched there does nothing yet, so it is neither gated nor
// charged; the graph that comes of it is. Programs that capture nothing pay one load a launch.
// Any thread at any time.
#pragma once

#include "hook/driver.h"
#include "hook/hooks.h"

SLUICE_DRIVER(cuStreamIsCapturing);
SLUICE_DRIVER(cuStreamIsCapturing_ptsz);
SLUICE_DRIVER(cuThreadExchangeStreamCaptureMode);

namespace sluice::hook {

// The question in its two variants, by which a function knows whose default stream 0 is.
constexpr auto kLegacy = driver_cuStreamIsCapturing;
constexpr auto kPerThread = driver_cuStreamIsCapturing_ptsz;

// Captures that were begun here and not yet ended. Too many (a capturing stream that was destroyed)
// only makes launches ask the driver.
extern unsigned open_captures;

inline bool captures_open() {
  return __builtin_expect(__atomic_load_n(&open_captures, __ATOMIC_RELAXED) != 0, 0);
}

// The one question about a stream that no capture forbids. It fails for the legacy stream while
// another stream captures: so will the launch.
template <auto is_capturing>
bool asks_captured(CUstream stream) {
  CUstreamCaptureStatus status = 0;
  return is_capturing(stream, &status) != CUDA_SUCCESS || status != CU_STREAM_CAPTURE_STATUS_NONE;
}

template <auto is_capturing>
bool captures(CUstream stream) {
  return captures_open() && asks_captured<is_capturing>(stream);
}

// While it lives, questions of the hook's own that a capture forbids neither fail nor end one. (A
// pool's attribute, asked by a thread of the usual mode, ends a capture: seen on driver 580.)
class BesideCaptures {
 public:
  BesideCaptures() : open_(captures_open()) { exchange(); }
  ~BesideCaptures() { exchange(); }
  BesideCaptures(const BesideCaptures&) = delete;

 private:
  void exchange() {
    if (open_) driver_cuThreadExchangeStreamCaptureMode(&mode_);
  }
  const bool open_;
  CUstreamCaptureMode mode_ = CU_STREAM_CAPTURE_MODE_RELAXED;
};

}  // namespace sluice::hook
