#include "learn/collective_samples.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <map>
#include <utility>

#include "base/random.h"
#include "learn/nccl_tuner.h"

namespace sluice::learn {
namespace {

using GpuType = Interconnect::GpuType;
using Kind = Interconnect::Kind;

constexpr int kGpus = 8, kSockets = 2;
constexpr int kServers = 16, kServersOfSwitch = 4;
constexpr int kTries = 6000;
constexpr size_t kPlacementsOfShape = 12;
constexpr int kOfOneServer = 10;  // their few shapes have as much to say as the many others
constexpr double kNoiseInside = 0.05, kNoiseBetween = 0.15;

// NVLinks of a public 8 × V100 server, by `nvidia-smi topo`.
constexpr int kMesh[kGpus][kGpus] = {{0, 1, 1, 2, 0, 0, 2, 0}, {1, 0, 2, 1, 0, 0, 0, 2},
                                     {1, 2, 0, 2, 1, 0, 0, 0}, {2, 1, 2, 0, 0, 1, 0, 0},
                                     {0, 0, 1, 0, 0, 2, 1, 2}, {0, 0, 0, 1, 2, 0, 2, 1},
                                     {2, 0, 0, 0, 1, 2, 0, 1}, {0, 2, 0, 0, 2, 1, 1, 0}};

struct ServerType {
  int ports;
  double nvlink, pcie, sockets, nic, uplink;  // GB/s; `uplink`: of one job, oversubscribed 2 : 1
};
constexpr ServerType kV100Server = {6, 20, 12, 10, 12, 6};
constexpr ServerType kA100Server = {12, 20, 24, 10, 48, 24};
constexpr int kCores = 48;
constexpr double kMemory = 128;

// A set of a server's GPUs, of two or more. A job of several servers takes pairs under one PCIe
// switch, as FaPES allocates them.
uint64_t some_gpus(Random& random, bool pairs) {
  uint64_t set = 0;
  while (std::popcount(set) < 2) {
    set = random.below(1 << kGpus);
    if (!pairs) continue;
    set &= 0x55;
    set |= set << 1;
  }
  return set;
}

// The GPUs of a job.
std::vector<int> random_gpus(Random& random) {
  constexpr int kJobServers[] = {1, 1, 2, 2, 3, 4, 4, 6, 8};
  const int servers = kJobServers[random.below(std::size(kJobServers))];
  const int fewest = (servers + kServersOfSwitch - 1) / kServersOfSwitch;
  const auto switches =
      static_cast<int>(random.between(fewest, std::min(servers, kServers / kServersOfSwitch)));
  const bool alike = random.chance(0.5);
  uint64_t set = some_gpus(random, servers > 1);
  std::vector<int> gpus;
  for (int i = 0; i < servers; ++i) {
    const int server = i % switches * kServersOfSwitch + i / switches;
    if (!alike) set = some_gpus(random, true);
    for (int gpu = 0; gpu < kGpus; ++gpu)
      if ((set >> gpu & 1U) != 0) gpus.push_back(server * kGpus + gpu);
  }
  return gpus;
}

double log_uniform(Random& random, double low, double high) {
  return low * std::exp(random.uniform() * std::log(high / low));
}

Part part_of(size_t index, size_t count) {
  return 5 * index < count ? Part::kTest : 5 * index < 2 * count ? Part::kValidate : Part::kTrain;
}

}  // namespace

Interconnect cluster_of(GpuType type, int servers, int servers_of_switch) {
  const ServerType& t = type == GpuType::kV100 ? kV100Server : kA100Server;
  const int gpus = servers * kGpus, cpus = servers * kSockets;
  const int switches = (servers + servers_of_switch - 1) / servers_of_switch;
  const int top = gpus + cpus + switches;
  Interconnect graph;
  for (int i = 0; i < gpus; ++i) {
    graph.nodes.push_back({.kind = Kind::kGpu,
                           .parent = gpus + i / (kGpus / kSockets),
                           .server = i / kGpus,
                           .type = type,
                           .nvlink_ports = t.ports});
    graph.edges.push_back({i, graph.nodes.back().parent, t.pcie});
    for (int j = i + 1; j < (i / kGpus + 1) * kGpus; ++j) {
      const int links = type == GpuType::kV100 ? kMesh[i % kGpus][j % kGpus] : t.ports;
      if (links > 0) graph.edges.push_back({i, j, links * t.nvlink, links});
    }
  }
  for (int i = 0; i < cpus; ++i) {
    const int parent = gpus + cpus + i / kSockets / servers_of_switch;
    graph.nodes.push_back({.kind = Kind::kCpu,
                           .parent = parent,
                           .server = i / kSockets,
                           .cores = kCores,
                           .memory_gb_per_second = kMemory});
    graph.edges.push_back({gpus + i, parent, t.nic});
    if (i % kSockets > 0) graph.edges.push_back({gpus + i - 1, gpus + i, t.sockets});
  }
  for (int i = 0; i < switches; ++i) {
    graph.nodes.push_back({.kind = Kind::kSwitch, .parent = top});
    graph.edges.push_back({gpus + cpus + i, top, t.uplink});
  }
  graph.nodes.push_back({.kind = Kind::kSwitch});
  return graph;
}

CollectiveSamples sample_collectives(uint64_t seed, int per_shape) {
  Random random(seed);
  CollectiveSamples out;
  std::map<std::pair<GpuType, PlacementShape>, std::vector<size_t>> by_shape;
  for (const GpuType type : {GpuType::kV100, GpuType::kA100}) {
    const Interconnect cluster = cluster_of(type, kServers, kServersOfSwitch);
    const double largest = largest_gb_per_second(cluster);
    for (int i = 0; i < kTries; ++i) {
      const std::vector<int> gpus = random_gpus(random);
      Interconnect graph = subgraph(cluster, gpus);
      const PlacementShape shape = shape_of(graph);
      std::vector<size_t>& alike = by_shape[{type, shape}];
      if (alike.size() == kPlacementsOfShape) continue;
      alike.push_back(out.placements.size());
      out.placements.push_back({std::move(graph), largest, shape});
    }
  }
  // Types with the same shape are in the same part.
  std::vector<PlacementShape> shapes;
  for (const auto& [key, alike] : by_shape) shapes.push_back(key.second);
  std::ranges::sort(shapes);
  shapes.erase(std::unique(shapes.begin(), shapes.end()), shapes.end());
  for (size_t i = shapes.size(); i > 1; --i) std::swap(shapes[i - 1], shapes[random.below(i)]);
  std::map<PlacementShape, Part> parts;
  for (size_t i = 0; i < shapes.size(); ++i) parts[shapes[i]] = part_of(i, shapes.size());
  for (SampledPlacement& p : out.placements) p.part = parts[p.shape];

  for (const auto& [key, alike] : by_shape)
    for (int i = 0; i < (key.second.servers > 1 ? 1 : kOfOneServer) * per_shape; ++i) {
      AllReduceSample s;
      s.placement = alike[random.below(alike.size())];
      s.bytes = log_uniform(random, 64, 1 << 30);
      s.bytes_of_number = random.chance(0.5) ? 2 : 4;
      s.exact_seconds =
          nccl_all_reduce_us(nccl_setup(out.placements[s.placement].graph), s.bytes) / 1e6;
      s.seconds =
          s.exact_seconds *
          std::exp((key.second.servers > 1 ? kNoiseBetween : kNoiseInside) * random.normal());
      out.samples.push_back(s);
    }
  return out;
}

}  // namespace sluice::learn
