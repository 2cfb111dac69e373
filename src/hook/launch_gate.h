// The permit gate of whatever device a launch goes to. A process that sees one device (the usual
// slice) never asks which; any other asks the driver at each launch: what a cache would be told of
// context switches is not all of them (CUDA's runtime switches contexts by a way of its own).
//
// State of the process lies here, in static storage, zeros until the first launch; a fork's child
// goes on with it and finds its own pages (wire/permit_attach.h). Any thread at any time.
#pragma once

#include "hook/captures.h"
#include "wire/permit.h"

namespace sluice::hook {

constexpr int kDevices = 32;  // no more than the kernel's driver serves

extern sluice_gate gates[kDevices];
extern int devices_seen;  // 0: not yet asked

// The gate where this thread was last, and its state there. One and not an array of all: a library
// that is opened late gets little of this kind of memory. Whoever changes devices finds its state
// again in the gate's slow path, in some hundred nanoseconds.
struct ThreadGate {
  int device;
  sluice_thread* state;
};
extern __thread ThreadGate thread_gate;

// The device of the calling thread's context; negative: it has none, so nothing will run.
int device_of_context();

// Returns when one more launch into `stream` may run. Only launches.cc calls it: the slow path is
// compiled with it.
template <auto is_capturing>
inline void pass_gate(CUstream stream) {
  if (captures<is_capturing>(stream)) return;
  const bool one = __builtin_expect(__atomic_load_n(&devices_seen, __ATOMIC_ACQUIRE) == 1, 1);
  const int device = one ? 0 : device_of_context();
  if (device < 0) return;
  if (__builtin_expect(thread_gate.device != device, 0)) thread_gate = {device, nullptr};
  sluice_gate_pass(&gates[device], &thread_gate.state);
}

}  // namespace sluice::hook
