// A kernel's launch, by a call or by a graph. The caller holds the process's lock.
#pragma once

#include "tests/emulator/driver.h"

namespace sluice::emulator {

// What the device is to run; an error of the caller's.
CUresult kernel_of(const Function& function, const CUDA_KERNEL_NODE_PARAMS_v2& launch,
                   std::uint32_t sms, bool together, Kernel& kernel);

// Notes that the kernel that was just submitted will end in an error.
void expect_fault(Stream& stream, const Function& function, const DeviceModel& device);

}  // namespace sluice::emulator
