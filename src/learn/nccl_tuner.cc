#include "learn/nccl_tuner.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <iterator>
#include <limits>

namespace sluice::learn {
namespace {

enum Algorithm { kTree, kRing };
enum Protocol { kLl, kLl128, kSimple };
constexpr int kAlgorithms = 2, kProtocols = 3;

// Microseconds, by algorithm and protocol.
constexpr double kBase[kAlgorithms][kProtocols] = {{4.4, 4.4, 0}, {3.6, 10, 8.4}};
constexpr double kNvlinkHop[kAlgorithms][kProtocols] = {{0.52, 1.25, 28}, {0.47, 1.9, 3.4}};
constexpr double kPcieHop[kAlgorithms][kProtocols] = {{1.0, 1.9, 28}, {1.0, 2.5, 5.7}};
constexpr double kNetworkHop[kAlgorithms][kProtocols] = {{5, 8.5, 28}, {2.7, 4, 9.6}};

// What part of its bandwidth a tree reaches, by protocol, for 64 B and every further power of two.
constexpr double kTreePart[kProtocols][23] = {
    {1, 1, 1, 1, .9, .8, .7, .7, .7, .7, .6, .5, .4, .4, .5, .6, .7, .8, .9, 1, 1, 1, 1},
    {1, 1, 1, 1, 1, .9, .8, .8, .8, .7, .6, .6, .6, .6, .6, .6, .8, .9, .9, .9, .9, 1, 1},
    {.9, .9, .9, .9, .9, .9, .9, .8, .7, .6, .6, .5, .5, .5, .5, .6, .7, .8, .7, .7, .8, .9, .9}};

// Of a type of GPU, GB/s; the lists are for 1, 2 and more servers.
struct Limits {
  double ll[3];
  double tree_channel[3];
  double bus;
};
constexpr double kNoLimit = std::numeric_limits<double>::infinity();
constexpr Limits kVolta = {{39, 39, 20.4}, {26.5, 18.5, 10}, kNoLimit};
constexpr Limits kAmpere = {{87.7, 87.7, 87.7}, {24, 23.6, 17.8}, 235};

// What published runs have of a type of machine.
struct Fitted {
  double launch_us, launch_between_us;  // in one server; for each tier of switches
  double nvlink_part, network_part;     // of the nominal bandwidth
  int network_channels;
};
constexpr Fitted kVoltaRuns = {38, 70, 1.10, 0.70, 2};
constexpr Fitted kAmpereRuns = {26, 130, 1.00, 0.68, 8};
constexpr double kPciePart = 0.72;

double tree_part(int protocol, double bytes) {
  const auto units = static_cast<uint64_t>(bytes / 64);
  if (units == 0) return kTreePart[protocol][0];
  const auto power = static_cast<size_t>(std::bit_width(units) - 1);
  return power < std::size(kTreePart[0]) ? kTreePart[protocol][power] : 1;
}

double gb_per_second(const NcclSetup& s, int algorithm, int protocol, double bytes) {
  const Limits& limits = s.type == Interconnect::GpuType::kV100 ? kVolta : kAmpere;
  const size_t scale = s.servers == 1 ? 0 : s.servers == 2 ? 1 : 2;
  double bus = std::min(s.bus_gb_per_second, limits.bus);
  if (algorithm == kTree) {
    bus = std::min(0.92 * bus, s.channels * limits.tree_channel[scale]);
    if (protocol == kLl) bus = std::min(bus / 3.8, limits.ll[scale]);
    if (protocol == kLl128)
      bus = std::min(bus * (s.servers == 1 ? 7.0 / 9 : 120.0 / 128), 20.0 * s.channels);
    return bus / 2 * tree_part(protocol, bytes);
  }
  if (protocol == kLl) bus = std::min(limits.ll[scale], bus / 4);
  if (protocol == kLl128)
    bus = std::min(bus * (s.ranks < 2 * s.servers ? 0.7 : 0.92), 20.0 * s.channels);
  return bus * s.ranks / (2.0 * (s.ranks - 1));
}

double latency_us(const NcclSetup& s, int algorithm, int protocol, double bytes) {
  const double n = s.ranks, servers = s.servers;
  double inside = (s.nvlink ? kNvlinkHop : kPcieHop)[algorithm][protocol];
  if (s.servers > 1 && protocol == kLl) inside *= 1.8;
  const double between = kNetworkHop[algorithm][protocol];
  if (algorithm == kTree)
    return kBase[kTree][protocol] +
           2 * ((n / servers - 1) * inside + std::floor(std::log2(servers)) * between);
  const double steps = s.servers == 1 ? 0 : 2 * servers;
  const double latency = kBase[kRing][protocol] + (2 * (n - 1) - steps) * inside + steps * between;
  const bool plateau = protocol == kSimple && s.servers > 1 && bytes >= n / 16 * 65536;
  return plateau ? 1.9 * latency : latency;
}

bool allowed(const NcclSetup& s, int algorithm, int protocol) {
  if (algorithm == kTree && !s.tree) return false;
  return protocol != kLl128 || (s.nvlink && s.servers == 1);
}

}  // namespace

NcclSetup nccl_setup(const Interconnect& graph) {
  const PlacementShape shape = shape_of(graph);
  NcclSetup s{.ranks = shape.gpus, .servers = shape.servers};
  double inside = kNoLimit;
  for (const Interconnect::Node& n : graph.nodes) {
    if (n.kind == Interconnect::Kind::kGpu) s.type = n.type;
    if (n.kind == Interconnect::Kind::kCpu)
      inside = std::min(inside, server_gb_per_second(graph, n.server));
  }
  const Fitted& runs = s.type == Interconnect::GpuType::kV100 ? kVoltaRuns : kAmpereRuns;
  s.nvlink = shape.rings > 0 || shape.gpus == shape.servers;
  s.bus_gb_per_second = (shape.rings > 0 ? runs.nvlink_part : kPciePart) * inside;
  if (shape.servers == 1) {
    s.channels = s.nvlink ? 2 * shape.rings : 2;
    s.launch_us = s.nvlink ? runs.launch_us : 0;
    return s;
  }
  s.channels = runs.network_channels;
  s.bus_gb_per_second =
      std::min(s.bus_gb_per_second, runs.network_part * network_gb_per_second(graph));
  s.launch_us = runs.launch_us + runs.launch_between_us * (shape.switches > 1 ? 2 : 1);
  return s;
}

double nccl_all_reduce_us(const NcclSetup& s, double bytes) {
  double least = kNoLimit;
  for (int a = 0; a < kAlgorithms; ++a)
    for (int p = 0; p < kProtocols; ++p)
      if (allowed(s, a, p))
        least = std::min(
            least, latency_us(s, a, p, bytes) + bytes / (1e3 * gb_per_second(s, a, p, bytes)));
  return s.launch_us + least;
}

}  // namespace sluice::learn
