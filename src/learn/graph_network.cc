#include "learn/graph_network.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <set>

namespace sluice::learn {
namespace {

using Kind = Interconnect::Kind;

// Features are brought to about 1.
constexpr double kLogBytes = 30, kNumber = 4, kMostCores = 48, kMostBandwidth = 128;
constexpr double kLogCount = 3, kSwitches = 4, kLogBandwidth = 8;

enum Column : size_t {
  kType,  // of each type 0 or 1
  kBytes = 2,
  kBytesOfNumber,
  kCpuCores,
  kMemoryBandwidth,
  kIsCpu,
  kIsSwitch,
  kGpusBelow,
  kServersBelow,
  kBandwidth,
  kAllRings,
  kAllGpus,
  kAllServers,
  kAllSwitches,
  kLeastBandwidth,
};
static_assert(kLeastBandwidth + 1 == kNodeFeatures);

double scaled_log(double value, double scale) {
  return std::log2(value) / scale;
}

double silu(double z) {
  return z / (1 + std::exp(-z));
}

// What lies below a node.
struct Below {
  int gpus = 0, children = 0;
  std::set<int> servers;
};

std::vector<Below> below(const Interconnect& graph) {
  std::vector<Below> out(graph.nodes.size());
  for (const Interconnect::Node& n : graph.nodes) {
    if (n.parent >= 0) ++out[static_cast<size_t>(n.parent)].children;
    if (n.kind != Kind::kGpu) continue;
    for (int up = n.parent; up >= 0; up = graph.nodes[static_cast<size_t>(up)].parent) {
      ++out[static_cast<size_t>(up)].gpus;
      out[static_cast<size_t>(up)].servers.insert(n.server);
    }
  }
  return out;
}

// The slowest of a node's links.
double slowest_link(const Interconnect& graph, size_t node) {
  double slowest = largest_gb_per_second(graph);
  for (const Interconnect::Edge& e : graph.edges)
    if (static_cast<size_t>(e.a) == node || static_cast<size_t>(e.b) == node)
      slowest = std::min(slowest, e.gb_per_second);
  return slowest;
}

std::vector<GraphInput::Term> terms_of(const Interconnect& graph, double largest, bool itself) {
  std::vector<double> degree(graph.nodes.size());
  for (const Interconnect::Edge& e : graph.edges) {
    ++degree[static_cast<size_t>(e.a)];
    ++degree[static_cast<size_t>(e.b)];
  }
  std::vector<GraphInput::Term> terms;
  for (const Interconnect::Edge& e : graph.edges) {
    const double weight =
        e.gb_per_second / largest /
        std::sqrt(degree[static_cast<size_t>(e.a)] * degree[static_cast<size_t>(e.b)]);
    terms.push_back({e.a, e.b, weight});
    terms.push_back({e.b, e.a, weight});
  }
  for (int i = 0; itself && i < static_cast<int>(graph.nodes.size()); ++i)
    terms.push_back({i, i, 1});
  return terms;
}

// A switch above others adds to the cluster by itself; those with CPUs below add their mean.
std::vector<double> pooling_of(const Interconnect& graph, const std::vector<Below>& under) {
  std::set<int> leaves;
  for (const Interconnect::Node& n : graph.nodes)
    if (n.kind == Kind::kCpu && n.parent >= 0) leaves.insert(n.parent);
  std::vector<double> pool(graph.nodes.size(), 1);
  for (const int leaf : leaves)
    pool[static_cast<size_t>(leaf)] = 1.0 / static_cast<double>(leaves.size());
  for (size_t i = graph.nodes.size(); i-- > 0;) {  // parents first
    const Interconnect::Node& n = graph.nodes[i];
    if (n.kind == Kind::kSwitch || n.parent < 0) continue;
    const auto parent = static_cast<size_t>(n.parent);
    pool[i] = pool[parent] / under[parent].children;
  }
  return pool;
}

}  // namespace

GraphInput::GraphInput(const Interconnect& graph, double largest, NodeFeatures which)
    : terms_(terms_of(graph, largest, which != NodeFeatures::kPrinted)),
      features_(graph.nodes.size() * kNodeFeatures) {
  const std::vector<Below> under = below(graph);
  const PlacementShape shape = shape_of(graph);
  const double least = least_gb_per_second(graph);
  gpus_ = shape.gpus;
  pooling_ = pooling_of(graph, under);
  for (size_t i = 0; i < graph.nodes.size(); ++i) {
    const Interconnect::Node& n = graph.nodes[i];
    const std::span<double> f = std::span(features_).subspan(i * kNodeFeatures, kNodeFeatures);
    is_gpu_.push_back(n.kind == Kind::kGpu);
    has_bytes_.push_back(is_gpu_[i] || which != NodeFeatures::kPrinted);
    if (is_gpu_[i]) {
      f[kType + static_cast<size_t>(n.type)] = 1;
      if (n.parent < 0) continue;
      const Interconnect::Node& cpu = graph.nodes[static_cast<size_t>(n.parent)];
      f[kCpuCores] = cpu.cores / kMostCores;
      f[kMemoryBandwidth] = cpu.memory_gb_per_second / kMostBandwidth;
      continue;
    }
    if (which == NodeFeatures::kPrinted) continue;
    const bool is_cpu = n.kind == Kind::kCpu;
    f[is_cpu ? kIsCpu : kIsSwitch] = 1;
    f[kGpusBelow] = scaled_log(under[i].gpus, kLogCount);
    f[kServersBelow] = scaled_log(static_cast<double>(under[i].servers.size()), kLogCount);
    f[kBandwidth] = scaled_log(
        is_cpu ? server_gb_per_second(graph, n.server) : slowest_link(graph, i), kLogBandwidth);
    f[kAllRings] = shape.rings > 0 ? 1 : 0;
    f[kAllGpus] = scaled_log(shape.gpus, kLogCount);
    f[kAllServers] = scaled_log(shape.servers, kLogCount);
    f[kAllSwitches] = shape.switches / kSwitches;
    f[kLeastBandwidth] = scaled_log(least, kLogBandwidth);
  }
}

std::vector<double> GraphInput::features(double bytes, int bytes_of_number) const {
  std::vector<double> all = features_;
  for (size_t i = 0; i < nodes(); ++i) {
    if (has_bytes_[i]) all[i * kNodeFeatures + kBytes] = scaled_log(bytes, kLogBytes);
    if (is_gpu_[i]) all[i * kNodeFeatures + kBytesOfNumber] = bytes_of_number / kNumber;
  }
  return all;
}

bool GraphNetwork::is_whole() const {
  size_t size = kNodeFeatures;
  for (const Layer& l : layers) {
    if (l.inputs != size || l.outputs == 0 || l.weights.size() != l.inputs * l.outputs ||
        l.bias.size() != l.outputs)
      return false;
    size = l.outputs;
  }
  return !layers.empty() && last.size() == size;
}

double log_all_reduce_seconds(const GraphNetwork& network, const GraphInput& input, double bytes,
                              int bytes_of_number) {
  std::vector<double> h = input.features(bytes, bytes_of_number);
  for (const GraphNetwork::Layer& layer : network.layers) {
    std::vector<double> sums(input.nodes() * layer.inputs), next;
    for (const GraphInput::Term& t : input.terms())
      for (size_t j = 0; j < layer.inputs; ++j)
        sums[static_cast<size_t>(t.to) * layer.inputs + j] +=
            t.weight * h[static_cast<size_t>(t.from) * layer.inputs + j];
    for (size_t v = 0; v < input.nodes(); ++v) {
      next.insert(next.end(), layer.bias.begin(), layer.bias.end());
      double* out = next.data() + v * layer.outputs;
      for (size_t j = 0; j < layer.inputs; ++j)
        for (size_t i = 0; i < layer.outputs; ++i)
          out[i] += layer.weights[j * layer.outputs + i] * sums[v * layer.inputs + j];
    }
    for (double& z : next) z = silu(z);
    h = std::move(next);
  }
  double sum = network.bias;
  for (size_t v = 0; v < input.nodes(); ++v)
    sum +=
        input.pooling()[v] *
        std::inner_product(network.last.begin(), network.last.end(),
                           h.begin() + static_cast<std::ptrdiff_t>(v * network.last.size()), 0.0);
  return sum;
}

double all_reduce_seconds(const GraphNetwork& network, const GraphInput& input, double bytes,
                          int bytes_of_number) {
  if (input.gpus() <= 1 || !(bytes > 0)) return 0;
  return std::exp(log_all_reduce_seconds(network, input, bytes, bytes_of_number));
}

}  // namespace sluice::learn
