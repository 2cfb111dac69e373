#include "policy/place.h"

#include <algorithm>
#include <functional>
#include <utility>

#include "policy/place_best_fit.h"
#include "policy/place_dilu.h"
#include "policy/place_efficiency.h"
#include "policy/place_lanes.h"
#include "policy/place_rectangles.h"
#include "policy/place_whole.h"

namespace sluice::policy {

std::span<const Placement> placements() {
  static constexpr Placement kPlacements[] = {
      {"lanes", "SM lanes, the least occupied of the used devices first (HAS-GPU)", lanes_layout,
       place_lanes},
      {"whole", "a device of its own", lanes_layout, place_whole},
      {"best-fit", "the opening that leaves the least (SMIF)", lanes_layout, place_best_fit},
      {"rectangles", "the maximal free rectangle that leaves the least (FaST-GShare)",
       rectangles_layout, place_rectangles},
      {"complementary", "beside known neighbours, the least fragment; limits up to 1.5 (Dilu)",
       lanes_layout, place_dilu, "Limits add up to at most 150 % of a device."},
      {"efficiency", "the fullest device that takes it (INFless)", lanes_layout, place_efficiency},
  };
  return kPlacements;
}

const Placement* find_placement(std::string_view name) {
  for (const Placement& p : placements())
    if (p.name == name) return &p;
  return nullptr;
}

Layouts::Layouts(std::span<const Device> devices, const Placement& placement,
                 std::string_view arbiter)
    : placement_(&placement) {
  all_.reserve(devices.size());
  for (const Device& d : devices) {
    all_.push_back(placement.layout(d));
    all_.back()->plan_for(arbiter);
  }
  changed_.has.resize(all_.size());
  for (size_t i = 0; i < all_.size(); ++i) changed_.add(i);
}

std::vector<size_t> Layouts::Numbers::take() {
  for (const size_t i : list) has[i] = false;
  return std::exchange(list, {});
}

const std::set<DeviceRank>& Layouts::ordered(DeviceOrder order) {
  Order& o = orders_[static_cast<size_t>(order)];
  if (!o.made) {
    o.made = true;
    o.changed.has.resize(all_.size());
    o.rank.resize(all_.size());
    for (size_t i = 0; i < all_.size(); ++i) o.changed.add(i);
  }
  for (const size_t i : o.changed.take()) {
    if (o.rank[i]) o.devices.erase(*o.rank[i]);
    o.rank[i].reset();
    const Layout& l = *all_[i];
    if (!takes(l, 0)) continue;
    o.rank[i] = {order == DeviceOrder::kUsedFirst && !l.used(), l.occupancy(), i};
    o.devices.insert(*o.rank[i]);
  }
  return o.devices;
}

bool takes(const Layout& layout, Bytes memory) {
  const Device& d = layout.device();
  return !d.drained && d.reachable && !layout.runs_another() && layout.free_memory() >= memory;
}

bool takes(const Layout& layout, const PlaceRequest& request) {
  const bool wanted = request.like == nullptr || alike(*request.like, layout.device());
  return wanted && takes(layout, request.memory);
}

Layout* DeviceQueue::next() {
  auto at = last_ ? devices_.upper_bound(*last_) : devices_.begin();
  for (; at != devices_.end(); ++at) {
    const size_t i = std::get<size_t>(*at);
    if (std::as_const(layouts_)[i].free_memory() < memory_) continue;
    last_ = *at;
    return &layouts_[i];
  }
  return nullptr;
}

std::vector<Spot> first_fit(Layouts& layouts, const PlaceRequest& request, DeviceOrder order) {
  std::vector<Spot> spots;
  DeviceQueue devices(layouts, request.memory, order);
  while (Layout* device = devices.next()) {
    if (!takes(*device, request)) continue;
    for (const Opening& opening : device->openings(device->width(request.sm))) {
      if (opening.quota < request.quota.request) continue;
      spots.push_back({device, opening});
      break;
    }
    if (static_cast<int>(spots.size()) == request.parts) return spots;
  }
  return {};
}

}  // namespace sluice::policy
