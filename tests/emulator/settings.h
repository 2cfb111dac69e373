// The emulated machine as a line of words: "devices=2 sms=132 memory_mib=81920 shared=1
// slice_us=2000 link_gbps=50 memory_gbps=3000 context_mib=256 nvlinks=4 small=1 small_sms=66
// clock=virtual". What is left out is as in MachineSpec. Pure.
#pragma once

#include <string>
#include <string_view>

#include "tests/emulator/machine_state.h"

namespace sluice::emulator {

// False: `why` names the word.
bool read_settings(std::string_view text, MachineSpec& spec, std::string& why);

}  // namespace sluice::emulator
