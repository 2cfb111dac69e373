#include "policy/plan/fapes_placement.h"

#include <algorithm>
#include <tuple>

namespace sluice::policy {
namespace {

size_t index_in(const Placed& placed, size_t node) {
  const auto at = std::ranges::lower_bound(placed, node, {}, &Placed::value_type::first);
  return static_cast<size_t>(at - placed.begin());
}
bool is_on(const Placed& placed, size_t node) {
  const size_t i = index_in(placed, node);
  return i < placed.size() && placed[i].first == node;
}

void add_workers_on(Placed& placed, size_t node, int workers) {
  const size_t i = index_in(placed, node);
  if (i < placed.size() && placed[i].first == node)
    placed[i].second += workers;
  else
    placed.insert(placed.begin() + static_cast<ptrdiff_t>(i), {node, workers});
}

// Devices of one node that the job could take next.
struct NextDevices {
  bool lowers = true;
  double price = 0;
  double gain = 0;  // samples per second and device
  bool away = true;
  size_t node = 0;
  int devices = 0;  // 0: no offer

  auto rank() const { return std::tuple(devices == 0, lowers, price, -gain, away, node); }
};

// The best node to take up to `most` devices from.
class NextNode {
 public:
  NextNode(const FapesRound& in, const Placed& placed, int most)
      : in_(in), placed_(placed), most_(most), workers_(workers_in(placed)) {
    now_ = workers_ > 0 ? in.job.throughput(workers_, static_cast<int>(placed.size())) : 0;
  }

  NextDevices find() {
    for (const auto& [node, workers] : placed_)
      offer(node, in_.board.free(in_.round, node) - workers);
    for (const auto& [node, workers] : in_.held)
      if (!is_on(placed_, node)) offer(node, in_.board.free(in_.round, node));
    for (size_t c = 0; c < in_.board.classes(); ++c) {
      const int free = in_.board.free_in(c);
      if (free == 0) continue;
      if (best_.devices > 0 && !best_.lowers && in_.board.price_in(c) > best_.price) break;
      // All nodes of a class are alike, but for those that have been offered.
      for (const uint32_t node : in_.board.nodes_in(in_.round, c)) {
        if (is_on(placed_, node)) continue;
        offer(node, free);
        break;
      }
    }
    return best_;
  }

 private:
  void offer(size_t node, int free) {
    if (free <= 0 || node >= in_.board.nodes()) return;
    const bool here = is_on(placed_, node);
    const int devices = std::min(free, most_);
    const int nodes = static_cast<int>(placed_.size()) + !here;
    const double gain = (in_.job.throughput(workers_ + devices, nodes) - now_) / devices;
    const NextDevices next{.lowers = gain <= 0,
                           .price = in_.board.price(in_.round, node),
                           .gain = gain,
                           .away = !here && !is_on(in_.held, node),
                           .node = node,
                           .devices = devices};
    if (next.rank() < best_.rank()) best_ = next;
  }

  const FapesRound& in_;
  const Placed& placed_;
  const int most_, workers_;
  double now_ = 0;  // throughput
  NextDevices best_;
};

}  // namespace

Placed within_free(const FapesRound& in, Placed placed) {
  for (auto& [node, workers] : placed)
    workers = node < in.board.nodes() ? std::min(workers, in.board.free(in.round, node)) : 0;
  std::erase_if(placed, [](const auto& p) { return p.second <= 0; });
  return placed;
}

bool grow(const FapesRound& in, int size, Placed& placed) {
  for (int missing = size - workers_in(placed); missing > 0;) {
    const NextDevices next = NextNode(in, placed, missing).find();
    if (next.devices == 0) return false;
    add_workers_on(placed, next.node, next.devices);
    missing -= next.devices;
  }
  return true;
}

void shrink(const FapesRound& in, int size, Placed& placed) {
  for (int excess = workers_in(placed) - size; excess > 0;) {
    size_t dearest = 0;
    const auto rank = [&](size_t i) {
      const auto& [node, workers] = placed[i];
      return std::tuple(-in.board.price(in.round, node), workers, -static_cast<int64_t>(node));
    };
    for (size_t i = 1; i < placed.size(); ++i)
      if (rank(i) < rank(dearest)) dearest = i;
    const int dropped = std::min(excess, placed[dearest].second);
    excess -= dropped;
    placed[dearest].second -= dropped;
    if (placed[dearest].second == 0) placed.erase(placed.begin() + static_cast<ptrdiff_t>(dearest));
  }
}

std::optional<Placed> on_one_node(const FapesRound& in, int size) {
  std::optional<size_t> best;
  double price = 0;
  for (const auto& [node, workers] : in.held) {
    if (node >= in.board.nodes() || in.board.free(in.round, node) < size) continue;
    if (best && in.board.price(in.round, node) >= price) continue;
    best = node;
    price = in.board.price(in.round, node);
  }
  for (size_t c = 0; c < in.board.classes(); ++c) {
    const auto nodes = in.board.nodes_in(in.round, c);
    if (in.board.free_in(c) < size || nodes.empty()) continue;
    if (!best || in.board.price_in(c) < price) best = nodes[0];
    break;
  }
  if (!best) return std::nullopt;
  return Placed{{*best, size}};
}

}  // namespace sluice::policy
