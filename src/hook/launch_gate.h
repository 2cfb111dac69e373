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
extern __thread sluice_thread* gate_threads[kDevices];
extern int devices_seen;  // 0: not yet asked

// The device of the calling thread's context; negative: it has none, so nothing will run.
int device_of_context();

// Returns when one more launch into `stream` may run. Only launches.cc calls it: the slow path is
// compiled with it.
template <auto is_capturing>
inline void pass_gate(CUstream stream) {
  if (captures<is_capturing>(stream)) return;
  const bool one = __builtin_expect(__atomic_load_n(&devices_seen, __ATOMIC_ACQUIRE) == 1, 1);
  const int device = one ? 0 : device_of_context();
  if (device >= 0) sluice_gate_pass(&gates[device], &gate_threads[device]);
}

}  // namespace sluice::hook
