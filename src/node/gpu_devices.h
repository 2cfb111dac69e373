// How the GPUs that were found become this node's devices: which of them is "cuda0" stays so as
// long as the machine runs, whatever order NVML tells them in. Pure.
#pragma once

#include <set>
#include <string>
#include <vector>

#include "node/local_device.h"

namespace sluice::node {

struct GpuSettings {
  std::string library = "libnvidia-ml.so.1";  // a path, or what the loader finds; empty: no GPUs
  double price_per_hour = 2.5;                // about a cloud's; the unit is the user's
  std::string mps;       // the MPS control program; empty: a GPU's clients have all of it by turns
  bool live_sm = false;  // with MPS: the hook confines clients, by green contexts, in its place
  Bytes store = 0;       // of each GPU's memory, set aside for its model store; 0: it has none
  std::string store_program;  // sluice-store
};

// What MPS confines a client to: a whole number of per cent of a GPU's SMs.
inline constexpr Share kMpsQuantum{10};

// What green contexts confine one to: at least one of the groups into which the driver parts the
// SMs, which are larger on newer GPUs. A whole GPU where its SMs are not known.
Share green_quantum(const Device& gpu);

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
