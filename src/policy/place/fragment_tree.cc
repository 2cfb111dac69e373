#include "policy/place/fragment_tree.h"

#include <algorithm>
#include <utility>

#include "policy/place/place.h"

namespace sluice::policy {
namespace {

constexpr int32_t kOmega = 1000, kGamma = 1500;  // in thousandths of a device
constexpr int64_t kAlpha = 3, kBeta = 2;         // 0.6 and 0.4, in fifths
constexpr int64_t kMillion = 1'000'000;
constexpr int64_t kUnused = int64_t{1} << 40;  // above all scores of devices in use

int32_t thousandths(Share sm, Share share) {  // of a device's time, rounded up
  return (sm.permille * share.permille + 999) / 1000;
}

int64_t millionths(Bytes part, Bytes whole) {
  if (whole <= 0) return 0;
  return static_cast<int64_t>(static_cast<double>(part) * kMillion / static_cast<double>(whole));
}

Fragment either(const Fragment& a, const Fragment& b) {
  return {std::max(a.request, b.request), std::max(a.limit, b.limit), std::max(a.memory, b.memory),
          std::min(a.score, b.score)};
}

}  // namespace

Fragment fragment_of(const Layout& device) {
  if (!takes(device, 0)) return {};
  const Bytes memory = device.device().memory;
  Fragment free{kOmega, kGamma, memory, 0};
  for (const Room& r : device.rooms()) {
    free.request -= thousandths(r.sm, r.quota);
    free.limit -= thousandths(r.sm, r.limit);
    free.memory -= r.memory;
  }
  free.score = kAlpha * free.request * (kMillion / 1000) + kBeta * millionths(free.memory, memory) +
               (device.used() ? 0 : kUnused);
  return free;
}

Piece piece_of(Share sm, Quota quota, Bytes memory) {
  return {thousandths(sm, quota.request), thousandths(sm, quota.limit), memory, sm, quota.request};
}

FragmentTree::FragmentTree(std::vector<Bytes> memories)
    : memories_(std::move(memories)), refused_(memories_.size()) {
  while (leaves_ < memories_.size()) leaves_ *= 2;
  nodes_.resize(2 * leaves_);
  for (const Bytes memory : memories_)
    if (memory > 0) least_memory_ = std::min(least_memory_, memory);
}

void FragmentTree::set(size_t device, const Fragment& fragment) {
  refused_[device].clear();
  size_t n = leaves_ + device;
  nodes_[n] = fragment;
  for (n /= 2; n > 0; n /= 2) {
    const Fragment now = either(nodes_[2 * n], nodes_[2 * n + 1]);
    if (now == nodes_[n]) return;
    nodes_[n] = now;
  }
}

void FragmentTree::refuse(size_t device, const Piece& piece) {
  std::vector<Sides>& refused = refused_[device];
  const auto same = std::ranges::find(refused, piece.sm, &Sides::sm);
  if (same != refused.end())
    same->time = std::min(same->time, piece.time);
  else
    refused.push_back({piece.sm, piece.time});
}

// The part lowers a score by α · request too, but by as much wherever it goes.
FragmentTree::Search FragmentTree::search(const Piece& piece,
                                          std::span<const size_t> passed_over) const {
  return {.piece = piece,
          .passed_over = passed_over,
          .lowers = kBeta * millionths(piece.memory, least_memory_)};
}

bool FragmentTree::may_be_better(size_t node, size_t first, const Search& search) const {
  const Fragment& free = nodes_[node];
  if (!fits(search.piece, free)) return false;
  const int64_t least = free.score - search.lowers;
  return least < search.score || (least == search.score && first < search.best);
}

void FragmentTree::try_one(size_t device, Search& search) const {
  if (!may_be_better(leaves_ + device, device, search)) return;
  const int64_t score =
      at(device).score - kBeta * millionths(search.piece.memory, memories_[device]);
  if (std::pair(score, device) >= std::pair(search.score, search.best)) return;
  if (std::ranges::find(search.passed_over, device) != search.passed_over.end()) return;
  const std::vector<Sides>& refused = refused_[device];
  const auto same = std::ranges::find(refused, search.piece.sm, &Sides::sm);
  if (same != refused.end() && search.piece.time >= same->time) return;
  search.best = device;
  search.score = score;
}

// The half with the lower score first, so that the other one is seldom entered.
void FragmentTree::try_below(size_t node, size_t first, size_t count, Search& search) const {
  if (count == 1) return try_one(first, search);
  const size_t half = count / 2, left = 2 * node;
  const size_t nearer = nodes_[left + 1].score < nodes_[left].score ? 1 : 0;
  for (const size_t side : {nearer, 1 - nearer})
    if (may_be_better(left + side, first + side * half, search))
      try_below(left + side, first + side * half, half, search);
}

void FragmentTree::try_all(Search& search) const {
  if (may_be_better(1, 0, search)) try_below(1, 0, leaves_, search);
}

}  // namespace sluice::policy
