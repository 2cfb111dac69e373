// Turns the GPUs that were found into this node's devices: "cuda0" stays the same GPU as long as
// the machine runs, whatever NVML's order. Pure.
#pragma once

#include <set>
#include <string>
#include <vector>

#include "node/local_device.h"

namespace sluice::node {

struct GpuSettings {
  std::string library = "libnvidia-ml.so.1";  // a path, or a name for the loader; empty: no GPUs
  double price_per_hour = 2.5;                // about a cloud's; the unit is the user's
  std::string mps;  // the MPS control program; empty: a GPU's clients have all of it by turns
  Bytes store = 0;  // of each GPU's memory, set aside for its model store; 0: it has none
  std::string store_program;  // sluice-store
};

// MPS confines a client to a whole number of per cent of a GPU's SMs.
inline constexpr Share kMpsQuantum{10};

// Returns whether MPS confines the GPU's clients to parts of its SMs, so that they run at once.
// Without it the driver gives each client the whole GPU by turns. False of a CPU.
bool goes_side_by_side(const Device& device);

// `known`: the node's devices so far, of this boot; `found`: as NVML told them, ids are UUIDs;
// `held`: devices that somebody holds a part of. A known GPU keeps its id, and stays drained; one
// that is not there any more stays as long as it is held, drained. What is held of its SMs and
// its memory it can hold; and who confines its clients to the SMs stays so while it is held, for
// they were started so.
std::vector<LocalDevice> merge_gpus(const std::vector<LocalDevice>& known,
                                    const std::vector<Device>& found,
                                    const std::set<DeviceId>& held, const std::string& node,
                                    const GpuSettings& settings);

}  // namespace sluice::node
