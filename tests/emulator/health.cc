#include "tests/emulator/health.h"

#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <climits>

#include "abi/nvml_abi.h"

namespace sluice::emulator {
namespace {

// Written whole, and then counted.
void happen(MachineState& state, const HealthEvent& event) {
  state.events[state.events_happened % kHealthEvents] = event;
  std::atomic_ref(state.events_happened).fetch_add(1);
  syscall(SYS_futex, &state.events_happened, FUTEX_WAKE, INT_MAX, nullptr, nullptr, 0);
}

}  // namespace

void raise_xid(MachineState& state, std::uint32_t device, std::uint64_t xid) {
  happen(state, {device, nvmlEventTypeXidCriticalError, xid});
}

void raise_ecc_error(MachineState& state, std::uint32_t device) {
  ++state.health[device].uncorrected_errors;
  happen(state, {device, nvmlEventTypeDoubleBitEccError, 0});
}

void lose(MachineState& state, std::uint32_t device) {
  state.health[device].lost = true;
}

}  // namespace sluice::emulator
