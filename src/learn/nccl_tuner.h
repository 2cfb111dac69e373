// How long NCCL 2.14's all-reduce takes by its own model, from which it chooses an algorithm and a
// protocol (constants of that release):
//
//   T = launch + min over {tree, ring} × {LL, LL128, Simple} of (latency + bytes ÷ bandwidth)
//
// `launch` and the part of the links' bandwidth that is reached were fitted to published runs of
// nccl-tests. A stand-in for measurements: what it says of a placement is synthetic. Pure.
#pragma once

#include "learn/interconnect.h"

namespace sluice::learn {

// What NCCL's search over the topology hands to its model, and how the machine departs from it.
struct NcclSetup {
  Interconnect::GpuType type = Interconnect::GpuType::kV100;
  int ranks = 2, servers = 1;
  bool nvlink = true;  // within servers; false: PCIe
  int channels = 2;
  double bus_gb_per_second = 0;  // of all channels, reached
  bool tree = true;              // false: NCCL_ALGO=Ring
  double launch_us = 0;

  bool operator==(const NcclSetup&) const = default;
};

// Returns the setup of a placement in a subgraph: as many channels as rings go both ways, and the
// least of the servers' NVLinks or PCIe, NICs and, above the first switches, shared uplinks.
NcclSetup nccl_setup(const Interconnect& subgraph);

// Microseconds. REQUIRES: ranks ≥ 2, bytes > 0.
double nccl_all_reduce_us(const NcclSetup& setup, double bytes);

}  // namespace sluice::learn
