#include "policy/choose_slice.h"

#include <algorithm>
#include <limits>
#include <tuple>

namespace sluice::policy {
namespace {

double area(const SliceCandidate& c) {
  return c.spot.opening.sm.fraction() * c.quota.fraction();
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

// Returns the candidate in that free rectangle with the smallest quota that covers `gap`, or all of
// the rectangle if none does. A quota is never below what keeps one request in time.
std::optional<SliceCandidate> in_opening(Layout& device, const Opening& opening,
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
  return SliceCandidate{{&device, opening}, *batch, quota, of(quota)};
}

// Returns none if the device lacks the memory, or the model was not measured on its type.
std::vector<SliceCandidate> candidates(Layout& device, const Capabilities& capabilities,
                                       const HasGpuSettings& config, double gap) {
  std::vector<SliceCandidate> found;
  const Capability& capability = capabilities.on(device.device());
  if (device.free_memory() < capability.memory()) return found;
  Share last = kNone;
  for (const Share width : capability.widths()) {
    const Share sm = device.width(width);
    if (sm == last) continue;  // the quantum makes them equal
    last = sm;
    for (const Opening& opening : device.openings(sm)) {
      if (auto c = in_opening(device, opening, capability, config, gap)) found.push_back(*c);
    }
  }
  return found;
}

// Among unused devices that offer the same, all but the first.
class Repeated {
 public:
  bool operator()(const Layout& layout) {
    if (layout.used()) return false;
    const Device& d = layout.device();
    const bool known = std::ranges::any_of(seen_, [&](const Device* other) {
      return alike(*other, d) && other->memory == d.memory && other->sm_quantum == d.sm_quantum;
    });
    if (!known) seen_.push_back(&d);
    return known;
  }

 private:
  std::vector<const Device*> seen_;
};

}  // namespace

std::optional<SliceCandidate> covering_slice(Layouts& layouts, const Capabilities& capabilities,
                                             const HasGpuSettings& config, double gap) {
  std::optional<SliceCandidate> best;
  DeviceQueue devices(layouts, 0);
  Repeated repeated;
  while (Layout* device = devices.next()) {
    // Step 2: the first used device that has one.
    if (best && best->spot.device->used()) return best;
    if (repeated(*device)) continue;
    for (const SliceCandidate& c : candidates(*device, capabilities, config, gap)) {
      if (c.capability < gap) continue;
      if (!best || more_efficient(c, *best)) best = c;
    }
  }
  return best;
}

std::optional<SliceCandidate> most_capable_slice(Layouts& layouts, const Capabilities& capabilities,
                                                 const HasGpuSettings& config) {
  constexpr double kAll = std::numeric_limits<double>::infinity();
  std::optional<SliceCandidate> best;
  DeviceQueue devices(layouts, 0);
  Repeated repeated;
  while (Layout* device = devices.next()) {
    if (repeated(*device)) continue;
    for (const SliceCandidate& c : candidates(*device, capabilities, config, kAll)) {
      if (c.capability > 0 && (!best || more_capable(c, *best))) best = c;
    }
  }
  return best;
}

}  // namespace sluice::policy
