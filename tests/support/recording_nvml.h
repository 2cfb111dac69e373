// The state of the NVML for tests (recording_nvml.cc).
#pragma once

namespace sluice::hook::nvml {

struct Call {
  unsigned long words[6];  // as many as any entry point has
};

// No value of nvmlReturn_t.
constexpr int returned_by(unsigned entry) {
  return 100000 + static_cast<int>(entry);
}

}  // namespace sluice::hook::nvml
