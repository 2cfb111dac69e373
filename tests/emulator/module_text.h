// The emulated device's programs: a text of one kernel a line,
//
//   kernel NAME ns=10000 [sms=N] [bandwidth=permille] [fault=CUresult]
//
// each block of its grid takes an SM for `ns`; `sms` is the most it can use, `bandwidth` what it
// then takes of the device's memory bandwidth; `fault` is the error in which it ends. '#' begins a
// comment. Pure.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "device_model/device_model.h"

namespace sluice::emulator {

struct KernelText {
  std::string name;
  Kernel kernel;
  int fault = 0;
};

// Returns false if a line is none of these.
bool read_module(std::string_view text, std::vector<KernelText>& kernels);

}  // namespace sluice::emulator
