#include "learn/interconnect.h"

#include <algorithm>
#include <limits>
#include <map>
#include <numeric>
#include <set>

namespace sluice::learn {
namespace {

using Kind = Interconnect::Kind;

// Packs rings into what is left of the links, depth first. Every ring begins at the first GPU.
class RingSearch {
 public:
  // Links from one GPU to another, of one direction.
  RingSearch(std::vector<std::vector<int>> links, int ports)
      : left_(std::move(links)), most_(std::min(ports, bound())) {}

  int most() {
    extend(0, 1);
    return best_;
  }

 private:
  static constexpr int kMostSteps = 100'000;

  // How many rings the links of each GPU leave at most.
  int bound() const {
    int least = std::numeric_limits<int>::max();
    for (const std::vector<int>& of_gpu : left_)
      least = std::min(least, std::accumulate(of_gpu.begin(), of_gpu.end(), 0));
    return least;
  }

  // `visited`: a bit for each GPU of the path, which ends at `last`.
  void extend(size_t last, unsigned visited) {
    const bool whole = visited + 1 == 1U << left_.size();
    for (size_t next = 0; next < left_.size(); ++next) {
      if (best_ >= most_ || ++steps_ > kMostSteps) return;
      if (left_[last][next] == 0 || (whole ? next != 0 : (visited >> next & 1U) != 0)) continue;
      --left_[last][next];
      if (!whole) {
        extend(next, visited | 1U << next);
      } else {
        best_ = std::max(best_, ++taken_);
        if (taken_ + bound() > best_) extend(0, 1);
        --taken_;
      }
      ++left_[last][next];
    }
  }

  std::vector<std::vector<int>> left_;
  int most_, best_ = 0, taken_ = 0, steps_ = 0;
};

const Interconnect::Node& node(const Interconnect& graph, int at) {
  return graph.nodes[static_cast<size_t>(at)];
}

}  // namespace

double largest_gb_per_second(const Interconnect& graph) {
  double most = 0;
  for (const Interconnect::Edge& e : graph.edges) most = std::max(most, e.gb_per_second);
  return most;
}

Interconnect subgraph(const Interconnect& graph, std::span<const int> gpus) {
  std::set<int> level(gpus.begin(), gpus.end()), kept;
  while (!level.empty()) {
    kept.insert(level.begin(), level.end());
    if (level.size() == 1 && node(graph, *level.begin()).kind == Kind::kSwitch) break;
    std::set<int> above;
    for (const int at : level)
      if (node(graph, at).parent >= 0) above.insert(node(graph, at).parent);
    level = std::move(above);
  }
  std::map<int, int> index = {{-1, -1}};
  for (const int at : kept) index.emplace(at, static_cast<int>(index.size()) - 1);
  Interconnect out;
  for (const int at : kept) {
    out.nodes.push_back(node(graph, at));
    int& parent = out.nodes.back().parent;
    parent = index.contains(parent) ? index.at(parent) : -1;
  }
  for (const Interconnect::Edge& e : graph.edges)
    if (index.contains(e.a) && index.contains(e.b))
      out.edges.push_back({index.at(e.a), index.at(e.b), e.gb_per_second, e.nvlinks});
  return out;
}

int nvlink_rings(const Interconnect& graph, int server) {
  std::map<int, size_t> index;
  int ports = std::numeric_limits<int>::max();
  for (int i = 0; i < static_cast<int>(graph.nodes.size()); ++i) {
    if (node(graph, i).kind != Kind::kGpu || node(graph, i).server != server) continue;
    index.emplace(i, index.size());
    ports = std::min(ports, node(graph, i).nvlink_ports);
  }
  if (index.size() < 2) return 0;
  std::vector<std::vector<int>> links(index.size(), std::vector<int>(index.size(), 0));
  for (const Interconnect::Edge& e : graph.edges) {
    if (!index.contains(e.a) || !index.contains(e.b)) continue;
    links[index[e.a]][index[e.b]] += e.nvlinks;
    links[index[e.b]][index[e.a]] += e.nvlinks;
  }
  return RingSearch(std::move(links), ports).most();
}

PlacementShape shape_of(const Interconnect& graph) {
  PlacementShape shape;
  std::map<int, int> gpus_of;
  std::set<int> switches;
  for (const Interconnect::Node& n : graph.nodes) {
    if (n.kind == Kind::kCpu && n.parent >= 0) switches.insert(n.parent);
    if (n.kind == Kind::kGpu) ++gpus_of[n.server], ++shape.gpus;
  }
  shape.servers = static_cast<int>(gpus_of.size());
  shape.switches = static_cast<int>(switches.size());
  int fewest = std::numeric_limits<int>::max();
  for (const auto& [server, gpus] : gpus_of)
    if (gpus > 1) fewest = std::min(fewest, nvlink_rings(graph, server));
  if (shape.gpus > shape.servers) shape.rings = fewest;
  return shape;
}

double server_gb_per_second(const Interconnect& graph, int server) {
  double slowest = std::numeric_limits<double>::infinity(), nvlink = slowest;
  for (const Interconnect::Edge& e : graph.edges) {
    if (node(graph, e.a).server != server || node(graph, e.b).server != server) continue;
    double& least = e.nvlinks > 0 ? nvlink : slowest;
    least = std::min(least, e.gb_per_second / std::max(e.nvlinks, 1));
  }
  const int rings = nvlink_rings(graph, server);
  return rings > 0 ? rings * nvlink : slowest;
}

double network_gb_per_second(const Interconnect& graph) {
  double least = std::numeric_limits<double>::infinity();
  for (const Interconnect::Edge& e : graph.edges)
    if (node(graph, e.a).kind == Kind::kSwitch || node(graph, e.b).kind == Kind::kSwitch)
      least = std::min(least, e.gb_per_second);
  return least;
}

double least_gb_per_second(const Interconnect& graph) {
  std::set<int> servers;
  for (const Interconnect::Node& n : graph.nodes)
    if (n.kind == Kind::kGpu) servers.insert(n.server);
  double least =
      servers.size() > 1 ? network_gb_per_second(graph) : std::numeric_limits<double>::infinity();
  for (const int server : servers) least = std::min(least, server_gb_per_second(graph, server));
  return least;
}

}  // namespace sluice::learn
