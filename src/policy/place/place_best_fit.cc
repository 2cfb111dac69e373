// For each part two devices of a kind are examined: the one with the narrowest gap between lanes
// that is wide enough, and the one with the least free time in a lane of that width that is long
// enough. An index of both finds them.
#include "policy/place/place_best_fit.h"

#include <algorithm>
#include <deque>
#include <map>
#include <optional>
#include <set>
#include <tuple>
#include <utility>

namespace sluice::policy {
namespace {

using Waste = std::tuple<int64_t, Bytes, size_t>;  // area, memory left, the device's index

struct Fit {
  Waste waste;
  Opening opening;

  size_t device() const { return std::get<size_t>(waste); }
};

int64_t area(Share sm, Share quota) {
  return int64_t{sm.permille} * quota.permille;
}

// Returns the area of a lane's free interval, or of all columns beside a new lane.
int64_t area_of(const Layout& device, const Opening& opening) {
  if (!opening.new_lane) return area(opening.sm, opening.quota);
  Share end = kWhole;
  for (const Room& r : device.rooms())
    if (!is_worker(r) && r.position.sm_begin >= opening.sm_begin)
      end = std::min(end, r.position.sm_begin);
  return area(end - opening.sm_begin, opening.quota);
}

std::optional<Fit> best_on(const Layouts& layouts, size_t index, const PlaceRequest& request) {
  const Layout& device = layouts[index];
  if (!takes(device, request)) return std::nullopt;
  const Share sm = device.width(request.sm);
  std::optional<Fit> best;
  for (const Opening& opening : device.openings(sm)) {
    if (opening.quota < request.quota.request) continue;
    const Waste waste{area_of(device, opening) - area(sm, request.quota.request),
                      device.free_memory() - request.memory, index};
    if (!best || waste < best->waste) best = Fit{waste, opening};
  }
  return best;
}

// By what is free on the devices that take instances.
class OpeningIndex : public Layouts::Index {
 public:
  void update(Layouts& layouts) {
    const std::vector<size_t> changed = layouts.take_changed();
    held_.resize(layouts.size());
    for (const size_t i : changed) {
      forget(i);
      const Layout& device = std::as_const(layouts)[i];
      if (takes(device, 0)) learn(i, device);
    }
  }

  std::optional<Fit> best(const Layouts& layouts, const PlaceRequest& request) const {
    std::optional<Fit> best;
    for (const KindOfDevice& kind : kinds_) {
      if (request.like != nullptr && !alike(*request.like, *kind.example)) continue;
      const int sm = std::min(round_up(request.sm, kind.example->sm_quantum), kWhole).permille;
      for (const std::optional<size_t> device :
           {beside_lanes(kind, sm, request.memory),
            in_lanes(kind, {sm, request.quota.request.permille}, request.memory)}) {
        if (!device) continue;
        const std::optional<Fit> fit = best_on(layouts, *device, request);
        if (fit && (!best || fit->waste < best->waste)) best = fit;
      }
    }
    return best;
  }

  // Drops a device until it is reported as changed.
  void forget(size_t i) {
    Held& held = held_[i];
    const std::pair<Bytes, size_t> entry{held.memory, i};
    for (const Gap& g : held.gaps) {
      auto width = held.kind->gaps.find(g.width);
      auto left = width->second.find(g.left);
      left->second.erase(entry);
      if (left->second.empty()) width->second.erase(left);
      if (width->second.empty()) held.kind->gaps.erase(width);
    }
    for (const Lane& l : held.lanes) {
      auto lane = held.kind->lanes.find(l);
      lane->second.erase(entry);
      if (lane->second.empty()) held.kind->lanes.erase(lane);
    }
    held = {};
  }

 private:
  using Devices = std::set<std::pair<Bytes, size_t>>;  // by memory left, then by id
  using Lane = std::pair<int, int>;                    // width, free time
  // Columns beside lanes, and the widest such columns to their left: a new lane of a width in
  // (left, width] begins there.
  struct Gap {
    int width = 0, left = 0;
  };
  // Devices that are alike, of one quantum.
  struct KindOfDevice {
    const Device* example;
    std::map<int, std::map<int, Devices>> gaps;  // by width, then by left
    std::map<Lane, Devices> lanes;
  };
  // What the index has of a device.
  struct Held {
    KindOfDevice* kind = nullptr;
    Bytes memory = 0;
    std::vector<Gap> gaps;
    std::vector<Lane> lanes;
  };

  static std::optional<size_t> with_memory(const Devices& devices, Bytes memory) {
    const auto found = devices.lower_bound({memory, 0});
    return found != devices.end() ? std::optional(found->second) : std::nullopt;
  }
  static std::optional<size_t> beside_lanes(const KindOfDevice& kind, int sm, Bytes memory) {
    for (auto width = kind.gaps.lower_bound(sm); width != kind.gaps.end(); ++width) {
      std::optional<std::pair<Bytes, size_t>> least;
      for (const auto& [left, devices] : width->second) {
        if (left >= sm) break;
        const auto found = devices.lower_bound({memory, 0});
        if (found != devices.end() && (!least || *found < *least)) least = *found;
      }
      if (least) return least->second;
    }
    return std::nullopt;
  }
  static std::optional<size_t> in_lanes(const KindOfDevice& kind, Lane least, Bytes memory) {
    for (auto lane = kind.lanes.lower_bound(least);
         lane != kind.lanes.end() && lane->first.first == least.first; ++lane)
      if (const auto device = with_memory(lane->second, memory)) return device;
    return std::nullopt;
  }

  static std::vector<Gap> gaps_of(const Layout& device) {
    std::vector<std::pair<int, int>> columns;  // begin, end
    for (const Room& r : device.rooms())
      columns.emplace_back(r.position.sm_begin.permille,
                           r.position.sm_begin.permille + r.sm.permille);
    std::ranges::sort(columns);
    columns.emplace_back(kWhole.permille, kWhole.permille);
    std::vector<Gap> gaps;
    int at = 0, widest = 0;
    for (const auto& [begin, end] : columns) {
      if (begin - at > widest) {
        gaps.push_back({begin - at, widest});
        widest = begin - at;
      }
      at = std::max(at, end);
    }
    return gaps;
  }
  static std::vector<Lane> lanes_of(const Layout& device) {
    std::set<Share> widths;
    for (const Room& r : device.rooms()) widths.insert(r.sm);
    std::set<Lane> lanes;
    for (const Share width : widths)
      for (const Opening& o : device.openings(width))
        if (!o.new_lane) lanes.emplace(width.permille, o.quota.permille);
    return {lanes.begin(), lanes.end()};
  }

  KindOfDevice& kind_of(const Device& device) {
    for (KindOfDevice& k : kinds_)
      if (alike(*k.example, device) && k.example->sm_quantum == device.sm_quantum) return k;
    return kinds_.emplace_back(KindOfDevice{&device, {}, {}});
  }
  void learn(size_t i, const Layout& device) {
    Held& held = held_[i];
    held = {&kind_of(device.device()), device.free_memory(), gaps_of(device), lanes_of(device)};
    const std::pair<Bytes, size_t> entry{held.memory, i};
    for (const Gap& g : held.gaps) held.kind->gaps[g.width][g.left].insert(entry);
    for (const Lane& l : held.lanes) held.kind->lanes[l].insert(entry);
  }

  std::deque<KindOfDevice> kinds_;
  std::vector<Held> held_;  // by device
};

}  // namespace

std::vector<Spot> place_best_fit(Layouts& layouts, const PlaceRequest& request) {
  OpeningIndex& free = layouts.index<OpeningIndex>();
  free.update(layouts);
  std::vector<Spot> spots;
  while (static_cast<int>(spots.size()) < request.parts) {
    const std::optional<Fit> fit = free.best(layouts, request);
    if (!fit) return {};
    free.forget(fit->device());  // until the next call, as operator[] marks it as changed
    spots.push_back({&layouts[fit->device()], fit->opening});
  }
  return spots;
}

}  // namespace sluice::policy
