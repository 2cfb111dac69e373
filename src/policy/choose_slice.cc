#include "policy/choose_slice.h"

#include <algorithm>
#include <limits>
#include <tuple>

namespace sluice::policy {
namespace {

double area(const SliceCandidate& c) {
  return c.opening.sm.fraction() * c.quota.fraction();
}

bool more_efficient(const SliceCandidate& a, const SliceCandidate& b) {
  const auto rank = [](const SliceCandidate& c) {
    return std::tuple(-c.capability / area(c), area(c));
  };
  return rank(a) < rank(b);
}

bool more_capable(const SliceCandidate& a, const SliceCandidate& b) {
  const auto rank = [](const SliceCandidate& c) { return std::tuple(-c.capability, area(c)); };
  return rank(a) < rank(b);
}

// The candidate in that opening with the smallest quota that covers `gap`, or all of the opening if
// none does. A quota is never below what keeps one request in time.
std::optional<SliceCandidate> in_opening(Lanes& device, const Opening& opening,
                                         const Capability& capability, const HasGpuSettings& config,
                                         double gap) {
  if (opening.quota < config.min_quota) return std::nullopt;
  const std::optional<int> batch = capability.best_batch(opening.sm, opening.quota);
  if (!batch) return std::nullopt;
  const auto of = [&](Share quota) { return capability.of({*batch, opening.sm, quota}); };
  const Share floor = capability.idle_quota(opening.sm, *batch).value_or(opening.quota);
  Share quota = std::min(floor, opening.quota);
  while (quota < opening.quota && of(quota) < gap) {
    quota = std::min(quota_above(quota, config), opening.quota);
  }
  return SliceCandidate{&device, opening, *batch, quota, of(quota)};
}

std::vector<SliceCandidate> candidates(Lanes& device, const Capability& capability,
                                       const HasGpuSettings& config, double gap) {
  std::vector<SliceCandidate> found;
  Share last = kNone;
  for (const Share width : capability.widths()) {
    const Share sm = device.width(width);
    if (sm == last) continue;  // the quantum makes them one
    last = sm;
    for (const Opening& opening : device.openings(sm)) {
      if (auto c = in_opening(device, opening, capability, config, gap)) found.push_back(*c);
    }
  }
  return found;
}

}  // namespace

std::vector<Lanes*> by_occupancy(std::vector<Lanes>& devices, Bytes memory, DeviceOrder order) {
  std::vector<Lanes*> open;
  for (Lanes& lanes : devices) {
    if (!lanes.device().drained && lanes.free_memory() >= memory) open.push_back(&lanes);
  }
  const bool used_first = order == DeviceOrder::kUsedFirst;
  const auto rank = [&](const Lanes* l) {
    return std::tuple(used_first && !l->used(), l->occupancy());
  };
  std::stable_sort(open.begin(), open.end(),
                   [&](const Lanes* a, const Lanes* b) { return rank(a) < rank(b); });
  return open;
}

std::optional<SliceCandidate> covering_slice(std::vector<Lanes>& devices,
                                             const Capability& capability,
                                             const HasGpuSettings& config, double gap) {
  std::optional<SliceCandidate> best;
  for (Lanes* device : by_occupancy(devices, capability.memory())) {
    if (best && best->device->used()) return best;  // step 2: the first used device that has one
    for (const SliceCandidate& c : candidates(*device, capability, config, gap)) {
      if (c.capability < gap) continue;
      if (!best || more_efficient(c, *best)) best = c;
    }
  }
  return best;
}

std::optional<SliceCandidate> most_capable_slice(std::vector<Lanes>& devices,
                                                 const Capability& capability,
                                                 const HasGpuSettings& config) {
  constexpr double kAll = std::numeric_limits<double>::infinity();
  std::optional<SliceCandidate> best;
  for (Lanes* device : by_occupancy(devices, capability.memory())) {
    for (const SliceCandidate& c : candidates(*device, capability, config, kAll)) {
      if (c.capability > 0 && (!best || more_capable(c, *best))) best = c;
    }
  }
  return best;
}

std::optional<SliceCandidate> exact_slice(std::vector<Lanes>& devices, Share sm, Share quota,
                                          Bytes memory, DeviceOrder order) {
  for (Lanes* device : by_occupancy(devices, memory, order)) {
    for (const Opening& opening : device->openings(device->width(sm))) {
      if (opening.quota >= quota) return SliceCandidate{device, opening, 1, quota, 0};
    }
  }
  return std::nullopt;
}

}  // namespace sluice::policy
