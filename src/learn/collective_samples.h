// All-reduces of synthetic placements on clusters of two types of server, with NCCL's model in
// place of a measurement (learn/nccl_tuner.h): what the communication model learns from, and is
// judged by.
#pragma once

#include <cstdint>
#include <vector>

#include "learn/interconnect.h"

namespace sluice::learn {

// Servers of 8 GPUs, `servers_of_switch` under a switch, one switch above: 8 × V100 in NVIDIA's
// hybrid cube mesh with a NIC of 100 Gbit/s, or 8 × A100 behind NVSwitches with four of them. The
// first nodes are the GPUs, by server.
Interconnect cluster_of(Interconnect::GpuType type, int servers, int servers_of_switch = 4);

enum class Part { kTrain, kValidate, kTest };

struct SampledPlacement {
  Interconnect graph;                // the subgraph
  double largest_gb_per_second = 0;  // of its cluster's links
  PlacementShape shape;
  Part part = Part::kTrain;
};
struct AllReduceSample {
  size_t placement = 0;
  double bytes = 0;
  int bytes_of_number = 4;
  double seconds = 0;        // with noise: what a measurement would say
  double exact_seconds = 0;  // without
};
struct CollectiveSamples {
  std::vector<SampledPlacement> placements;
  std::vector<AllReduceSample> samples;
};

// Returns `per_shape` samples of every shape that random placements over several servers have, and
// ten times as many of each in one server; message sizes from 64 B to 1 GiB (log-uniform). A fifth
// of the shapes is for validation, a fifth for the test: no shape is in two parts. Pure.
CollectiveSamples sample_collectives(uint64_t seed, int per_shape = 10);

}  // namespace sluice::learn
