#include "policy/scale/choose_slice.h"

#include <algorithm>
#include <limits>
#include <tuple>

#include "policy/place/offers.h"

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

// Returns the candidate in a free rectangle of that width and quota with the smallest quota that
// covers `gap`, or what all of the rectangle is worth if none does. A quota is never below what
// keeps one request in time.
std::optional<SliceCandidate> in_opening(Share sm, Share most, const Capability& capability,
                                         const Sizing& sizing, double gap) {
  if (most < sizing.min_quota) return std::nullopt;
  const std::optional<int> batch = capability.best_batch(sm, most);
  if (!batch) return std::nullopt;
  const auto of = [&](Share quota) { return capability.of({*batch, sm, quota}); };
  const Share floor = capability.idle_quota(sm, *batch).value_or(most);
  const double enough = worth_having(gap, of(most), sizing);
  Share quota = std::min(floor, most);
  while (quota < most && of(quota) < enough) quota = std::min(quota_above(quota, sizing), most);
  return SliceCandidate{{nullptr, {.sm = sm}}, *batch, quota, of(quota)};
}

// Returns none if the device lacks the memory, or the model was not measured on its type.
std::vector<SliceCandidate> candidates(Layout& device, const Capabilities& capabilities,
                                       const Sizing& sizing, double gap) {
  std::vector<SliceCandidate> found;
  const Capability& capability = capabilities.on(device.device());
  if (device.free_memory() < capability.memory()) return found;
  for (const Share sm : widths_on(device.device(), capability.widths()))
    for (const Opening& opening : device.openings(sm))
      if (auto c = in_opening(sm, opening.quota, capability, sizing, gap)) {
        c->spot = {&device, opening};
        found.push_back(*c);
      }
  return found;
}

// Calls `visit` with all that used devices offer: a width and a quota on devices of a kind.
template <class Visit>
void for_each_offer(Layouts& layouts, const Capabilities& capabilities, const Visit& visit) {
  auto& offers = layouts.index<Offers>();
  for (Offers::Kind& kind : offers.update(layouts)) {
    const Capability& capability = capabilities.on(kind.example());
    for (const Share sm : widths_on(kind.example(), capability.widths()))
      for (const auto& [quota, devices] : offers.used(kind, layouts, sm))
        visit(capability, sm, quota, devices);
  }
}

// The first unused device of each kind, by index.
std::vector<size_t> unused_devices(Layouts& layouts, const Capabilities& capabilities) {
  std::vector<size_t> first;
  auto& offers = layouts.index<Offers>();
  for (Offers::Kind& kind : offers.update(layouts))
    if (const auto device = Offers::unused(kind, layouts, capabilities.on(kind.example()).memory()))
      first.push_back(*device);
  std::ranges::sort(first);
  return first;
}

}  // namespace

std::optional<SliceCandidate> covering_slice(Layouts& layouts, const Capabilities& capabilities,
                                             const Sizing& sizing, double gap) {
  // Step 2: the first used device that has one.
  std::optional<Offers::Rank> first;
  for_each_offer(
      layouts, capabilities,
      [&](const Capability& capability, Share sm, Share quota, const Offers::Devices& devices) {
        const auto rank = first_of(devices, layouts, capability.memory(), first);
        if (!rank) return;
        const auto c = in_opening(sm, quota, capability, sizing, gap);
        if (c && c->capability >= gap) first = rank;
      });
  const std::vector<size_t> devices =
      first ? std::vector{first->second} : unused_devices(layouts, capabilities);
  std::optional<SliceCandidate> best;
  for (const size_t d : devices)
    for (const SliceCandidate& c : candidates(layouts[d], capabilities, sizing, gap))
      if (c.capability >= gap && (!best || more_efficient(c, *best))) best = c;
  return best;
}

std::optional<SliceCandidate> most_capable_slice(Layouts& layouts, const Capabilities& capabilities,
                                                 const Sizing& sizing) {
  constexpr double kAll = std::numeric_limits<double>::infinity();
  std::optional<SliceCandidate> most;
  std::optional<Offers::Rank> first;  // of the devices that offer as much
  for_each_offer(
      layouts, capabilities,
      [&](const Capability& capability, Share sm, Share quota, const Offers::Devices& devices) {
        const auto c = in_opening(sm, quota, capability, sizing, kAll);
        if (!c || c->capability <= 0 || (most && more_capable(*most, *c))) return;
        const bool more = !most || more_capable(*c, *most);
        const auto rank =
            first_of(devices, layouts, capability.memory(), more ? std::nullopt : first);
        if (rank) most = c, first = rank;
      });
  std::vector<size_t> devices = unused_devices(layouts, capabilities);
  if (first) devices.insert(devices.begin(), first->second);
  std::optional<SliceCandidate> best;
  for (const size_t d : devices)
    for (const SliceCandidate& c : candidates(layouts[d], capabilities, sizing, kAll))
      if (c.capability > 0 && (!best || more_capable(c, *best))) best = c;
  return best;
}

}  // namespace sluice::policy
