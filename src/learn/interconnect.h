// The links among a cluster's GPUs as a graph (FaPES, §4.1): GPUs joined by NVLinks, the CPU that
// each hangs on by PCIe, the switch that each CPU's NIC leads to, and switches above these. What an
// all-reduce among some of the GPUs can use is the subgraph of these GPUs and of what lies above.
//
// Plain values. Pure; const functions may be called at once.
#pragma once

#include <span>
#include <vector>

namespace sluice::learn {

struct Interconnect {
  enum class Kind { kGpu, kCpu, kSwitch };
  enum class GpuType { kV100, kA100 };

  struct Node {
    Kind kind = Kind::kGpu;
    int parent = -1;                // a GPU's CPU, a CPU's switch, a switch's upper one; −1: none
    int server = -1;                // −1: of a switch
    GpuType type = GpuType::kV100;  // of a server's GPUs
    int nvlink_ports = 0;           // of a GPU
    int cores = 0;                  // of a CPU
    double memory_gb_per_second = 0;

    bool operator==(const Node&) const = default;
  };
  struct Edge {
    int a = 0, b = 0;
    double gb_per_second = 0;  // in each direction
    int nvlinks = 0;           // 0: PCIe, a socket link or the network

    bool operator==(const Edge&) const = default;
  };

  std::vector<Node> nodes;  // a parent stands behind its children
  std::vector<Edge> edges;

  bool operator==(const Interconnect&) const = default;
};

// Returns the largest bandwidth of the graph's edges; 0 without edges.
double largest_gb_per_second(const Interconnect& graph);

// Returns the subgraph of these GPUs, their CPUs and the switches above, up to the first switch
// that lies above all of them. REQUIRES: `gpus` are different GPUs of the graph.
Interconnect subgraph(const Interconnect& graph, std::span<const int> gpus);

// What decides how NCCL sends: of a subgraph.
struct PlacementShape {
  int gpus = 0, servers = 0;
  int switches = 0;  // that CPUs hang on
  int rings = 0;  // the fewest of a server with several of the GPUs; 0: none has, or PCIe is used

  auto operator<=>(const PlacementShape&) const = default;
};
PlacementShape shape_of(const Interconnect& subgraph);

// Returns what a ring through the GPUs of one server carries in a direction, GB/s: all its NVLink
// rings together or, without one, the slowest link over PCIe. Infinite without such links.
double server_gb_per_second(const Interconnect& subgraph, int server);

// Returns the least bandwidth of links with a switch. Infinite without them.
double network_gb_per_second(const Interconnect& subgraph);

// Returns the least of its servers' and, between several servers, of the network's links: what a
// ring through all of its GPUs carries. REQUIRES: the subgraph has GPUs.
double least_gb_per_second(const Interconnect& subgraph);

// Returns how many directed rings through all GPUs of one server use no NVLink twice in a
// direction, and no GPU for more rings than it has ports; 0 for one GPU, or where there is no ring.
// NCCL's search for channels seeks these. Exact up to a bound of its steps, then the most found.
// REQUIRES: the server has fewer than 32 GPUs.
int nvlink_rings(const Interconnect& subgraph, int server);

}  // namespace sluice::learn
