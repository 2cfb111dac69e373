// A kernel's launch, however it was asked for: by a call, or by a graph. The process's lock is
// held.
#pragma once

#include "tests/emulator/driver.h"

namespace sluice::emulator {

// What the device is to run; an error of the caller's.
CUresult kernel_of(const Function& function, const CUDA_KERNEL_NODE_PARAMS_v2& launch,
                   std::uint32_t sms, bool together, Kernel& kernel);

// Notes that the kernel that was just submitted will turn out to be faulty.
void expect_fault(Stream& stream, const Function& function, const DeviceModel& device);

}  // namespace sluice::emulator
