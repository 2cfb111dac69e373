// How a test makes an emulated device fail, as NVML reports it. The device goes on computing:
// errors of its clients' calls are injected apart (machine.h).
#pragma once

#include <cstdint>

#include "tests/emulator/machine_state.h"

namespace sluice::emulator {

// Under the lock. What the driver would have logged as "NVRM: Xid".
void raise_xid(MachineState& state, std::uint32_t device, std::uint64_t xid);
// An error in memory that ECC could not correct: counted, and an event.
void raise_ecc_error(MachineState& state, std::uint32_t device);
// From now on NVML reports the device as lost.
void lose(MachineState& state, std::uint32_t device);

}  // namespace sluice::emulator
