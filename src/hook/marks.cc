// Iterations that the program marks itself (wire/iteration_marks.h). From its first mark on, its
// waits end none.
#include "hook/hooks.h"
#include "hook/launch_gate.h"
#include "wire/iteration_marks.h"

namespace sluice::hook {

bool iterations_marked;

namespace {

uint32_t owner;     // the thread whose iteration is open; 0: none is
uint64_t begun_ns;  // the owner's alone

// A mark never asks the driver for anything before the program has launched something.
Metering metering_of_marks() {
  return __atomic_load_n(&devices_seen, __ATOMIC_ACQUIRE) == 0 ? Metering{}
                                                               : metering(device_of_thread());
}

}  // namespace
}  // namespace sluice::hook

extern "C" {

SLUICE_EXPORT void sluice_iteration_begin() {
  using namespace sluice::hook;
  uint32_t none = 0;
  if (!__atomic_compare_exchange_n(&owner, &none, static_cast<uint32_t>(syscall(SYS_gettid)), false,
                                   __ATOMIC_ACQUIRE, __ATOMIC_RELAXED))
    return;
  __atomic_store_n(&iterations_marked, true, __ATOMIC_RELAXED);
  begun_ns = sluice_clock(CLOCK_MONOTONIC);
  const Metering m = metering_of_marks();
  if (m.meter != nullptr && sluice_slo(m.at) != 0) m.meter->begin_stretch(m.at, m.thread);
}

SLUICE_EXPORT void sluice_iteration_end(uint32_t kind) {
  using namespace sluice::hook;
  if (__atomic_load_n(&owner, __ATOMIC_RELAXED) != static_cast<uint32_t>(syscall(SYS_gettid)))
    return;
  const Metering m = metering_of_marks();
  if (m.meter != nullptr) m.meter->end_marked(m.at, begun_ns, kind);
  __atomic_store_n(&owner, 0U, __ATOMIC_RELEASE);
}

}  // extern "C"
