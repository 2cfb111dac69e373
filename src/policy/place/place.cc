#include "policy/place/place.h"

#include <utility>

#include "policy/place/place_best_fit.h"
#include "policy/place/place_dilu.h"
#include "policy/place/place_efficiency.h"
#include "policy/place/place_lanes.h"
#include "policy/place/place_rectangles.h"
#include "policy/place/place_whole.h"

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
                 std::string_view arbiter, Fill fill)
    : devices_(devices),
      placement_(&placement),
      arbiter_(arbiter),
      fill_(std::move(fill)),
      all_(devices.size()) {
  changed_.has.resize(all_.size());
  for (size_t i = 0; i < all_.size(); ++i) changed_.add(i);
}

void Layouts::make(size_t i) const {
  all_[i] = placement_->layout(devices_[i]);
  all_[i]->plan_for(arbiter_);
  if (fill_) fill_(i, *all_[i]);
}

std::vector<size_t> Layouts::Numbers::take() {
  for (const size_t i : list) has[i] = false;
  return std::exchange(list, {});
}

const std::set<DeviceRank>& Layouts::emptiest_first() {
  Order& o = emptiest_;
  if (!o.made) {
    o.made = true;
    o.changed.has.resize(all_.size());
    o.rank.resize(all_.size());
    for (size_t i = 0; i < all_.size(); ++i) o.changed.add(i);
  }
  for (const size_t i : o.changed.take()) {
    if (o.rank[i]) o.devices.erase(*o.rank[i]);
    o.rank[i].reset();
    const Layout& l = made(i);
    if (!takes(l, 0)) continue;
    o.rank[i] = {l.occupancy(), i};
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
    const size_t i = at->second;
    if (std::as_const(layouts_)[i].free_memory() < memory_) continue;
    last_ = *at;
    return &layouts_[i];
  }
  return nullptr;
}

std::vector<Spot> emptiest_fit(Layouts& layouts, const PlaceRequest& request) {
  std::vector<Spot> spots;
  DeviceQueue devices(layouts, request.memory);
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
