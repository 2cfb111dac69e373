// The permit gate of whatever device a launch goes to. A process that sees one device (the usual
// slice) never asks which; any other asks the driver at each launch: what a cache would be told of
// context switches is not all of them (CUDA's runtime switches contexts by a way of its own).
//
// State of the process lies here, in static storage, zeros until the first launch; a fork's child
// goes on with it and finds its own pages (wire/permit_attach.h). Any thread at any time.
#pragma once

#include "hook/captures.h"
#include "hook/meter.h"
#include "hook/named_devices.h"
#include "wire/permit.h"

namespace sluice::hook {

extern sluice_gate gates[kDevices];
extern int devices_seen;  // 0: not yet asked

// The gate where this thread was last, its state there, the lane of its last launch, and its
// stretch of work, if anybody asks for iterations. One and not an array of all: a library that is
// opened late gets little of this kind of memory. A thread that changes devices looks for its state
// there.
struct ThreadGate {
  int device;
  sluice_thread* state;
  Lane* lane;
  Stretch stretch;
};
extern __thread ThreadGate thread_gate;

// The device of the calling thread's context; negative: it has none, so nothing will run.
int device_of_context();
void change_device(int device);
inline int device_of_thread() {
  const bool one = __builtin_expect(__atomic_load_n(&devices_seen, __ATOMIC_ACQUIRE) == 1, 1);
  const int device = one ? 0 : device_of_context();
  if (__builtin_expect(thread_gate.device != device, 0)) change_device(device);
  return device;
}

// Null until there is a permit to meter for.
extern Meter* meters[kDevices];

// A device's meter, and the pages that it reports to. Nothing is metered where nothing is enforced.
struct Metering {
  Meter* meter;  // null: none
  sluice_attachment* at;
  uint32_t thread;
};
Metering metering(int device);

// What goes away, for all meters; a context that may be about to is left alone until it has, or is
// used again.
void leave_context_alone(CUcontext context);
void use_context_again(CUcontext context);
void forget_context(CUcontext context);
void forget_graph(CUgraphExec exec);
void doubt_kernels();
// The stream (null: any of them) waits for something else.
void hold_up(CUstream stream);
inline bool is_metered(CUdevice device) {
  return device >= 0 && device < kDevices &&
         __atomic_load_n(&meters[device], __ATOMIC_ACQUIRE) != nullptr;
}

// A thread with nothing in flight has no work, until its next launch.
inline void idle_if(bool idle) {
  if (idle && thread_gate.state != nullptr) sluice_gate_idle_begin(thread_gate.state);
}

// Its stretch of work (iterations.h) begins and ends where the slice asks for iterations; elsewhere
// a launch that has to look anyway loads one word more, and a call that waits compares one.
extern bool iterations_marked;  // by the program itself (marks.cc): its stretches are none
void begin_stretch(int device);
void end_stretch();
inline void has_waited(bool idle) {
  if (thread_gate.stretch.begun_ns != 0) end_stretch();
  idle_if(idle);
}

// While it lives, the calling thread waits until something that it submitted has run. To an arbiter
// the device is at work for it meanwhile; of a program that does not wait, it cannot know.
class AwaitingDevice {
 public:
  explicit AwaitingDevice(const Metering& m) : word_(&m.at->usage->awaiting) {
    __atomic_add_fetch(word_, 1U, __ATOMIC_RELAXED);
  }
  ~AwaitingDevice() { __atomic_sub_fetch(word_, 1U, __ATOMIC_RELAXED); }
  AwaitingDevice(const AwaitingDevice&) = delete;

 private:
  uint32_t* const word_;
};

// A default stream by its own handle.
template <auto is_capturing>
inline CUstream stream_itself(CUstream stream) {
  if (__builtin_expect(stream != nullptr, 1)) return stream;
  return is_capturing == kLegacy ? CU_STREAM_LEGACY : CU_STREAM_PER_THREAD;
}

}  // namespace sluice::hook
