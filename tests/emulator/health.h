// How a test makes an emulated device fail, for all that watch through NVML. The device goes on
// computing: what breaks the work of its clients is injected as errors of calls (machine.h).
#pragma once

#include <cstdint>

#include "tests/emulator/machine_state.h"

namespace sluice::emulator {

// Under the lock. What the driver would have logged as "NVRM: Xid".
void raise_xid(MachineState& state, std::uint32_t device, std::uint64_t xid);
// An error in memory that ECC could not correct: counted, and an event.
void raise_ecc_error(MachineState& state, std::uint32_t device);
// From now on NVML knows nothing of it but that it is lost.
void lose(MachineState& state, std::uint32_t device);

}  // namespace sluice::emulator
