// choose_slice: which slice a new instance gets, and on which device: steps 2 and 3 of HAS-GPU's
// Algorithm 1. Devices that are drained or lack the memory are passed over.
#pragma once

#include <optional>
#include <span>

#include "policy/capability.h"
#include "policy/place_lanes.h"

namespace sluice::policy {

struct SliceCandidate {
  Lanes* device = nullptr;
  Opening opening;
  int batch = 1;
  Share quota;
  double capability = 0;  // inferences per second with that quota
};

// The slice that covers `gap` alone with the fewest quota steps: on the used device of least
// occupancy that has one, else on a new device (RaPPbyThroughput). Of several on the same device
// the one with the most capability per sm × quota. Nothing: no single slice covers it.
std::optional<SliceCandidate> covering_slice(std::vector<Lanes>& devices,
                                             const Capability& capability,
                                             const HasGpuSettings& config, double gap);

// The most capable slice there is room for. Nothing: none is in time.
std::optional<SliceCandidate> most_capable_slice(std::vector<Lanes>& devices,
                                                 const Capability& capability,
                                                 const HasGpuSettings& config);

// Which device is tried first: used ones by rising occupancy, then new ones; or all by rising
// occupancy.
enum class DeviceOrder { kUsedFirst, kEmptiestFirst };

// Room for exactly that slice, on the first device that has it.
std::optional<SliceCandidate> exact_slice(std::vector<Lanes>& devices, Share sm, Share quota,
                                          Bytes memory, DeviceOrder order);

// Devices that take new instances, in that order; ties by id.
std::vector<Lanes*> by_occupancy(std::vector<Lanes>& devices, Bytes memory,
                                 DeviceOrder order = DeviceOrder::kUsedFirst);

}  // namespace sluice::policy
