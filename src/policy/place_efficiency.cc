// The devices are kept in the order of their occupancy. Those too full for the request are skipped
// without a look, so that few are examined.
#include "policy/place_efficiency.h"

#include <deque>
#include <optional>
#include <set>
#include <tuple>
#include <utility>

namespace sluice::policy {
namespace {

using OccupancyRank = std::pair<int64_t, size_t>;  // occupancy, falling; the device's index

struct Fullest {
  OccupancyRank rank;
  Opening opening;
};

class ByOccupancy : public Layouts::Index {
 public:
  void update(Layouts& layouts) {
    ranks_.resize(layouts.size());
    for (const size_t i : layouts.take_changed()) {
      const Layout& device = std::as_const(layouts)[i];
      forget(i);
      if (!takes(device, 0)) continue;
      AlikeDevices& kind = kind_of(device.device());
      ranks_[i] = {&kind, {-device.occupancy(), i}};
      kind.devices.insert(ranks_[i].second);
    }
  }

  // Drops a device until it is reported as changed.
  void forget(size_t i) {
    const auto& [devices, rank] = ranks_[i];
    if (devices != nullptr) devices->devices.erase(rank);
    ranks_[i] = {};
  }

  std::optional<Fullest> fullest(const Layouts& layouts, const PlaceRequest& request) const {
    std::optional<Fullest> best;
    for (const AlikeDevices& kind : kinds_) {
      if (request.like != nullptr && !alike(*request.like, *kind.example)) continue;
      const auto fit = fullest_of(kind, layouts, request);
      if (fit && (!best || fit->rank < best->rank)) best = fit;
    }
    return best;
  }

 private:
  struct AlikeDevices {  // devices that are alike
    const Device* example;
    std::set<OccupancyRank> devices;
  };

  static std::optional<Fullest> fullest_of(const AlikeDevices& kind, const Layouts& layouts,
                                           const PlaceRequest& request) {
    const int64_t needed = int64_t{request.sm.permille} * request.quota.request.permille;
    const int64_t most = int64_t{kWhole.permille} * kWhole.permille - needed;
    for (auto i = kind.devices.lower_bound({-most, 0}); i != kind.devices.end(); ++i) {
      const Layout& device = layouts[i->second];
      if (!takes(device, request)) continue;
      for (const Opening& opening : device.openings(device.width(request.sm)))
        if (opening.quota >= request.quota.request) return Fullest{*i, opening};
    }
    return std::nullopt;
  }

  AlikeDevices& kind_of(const Device& device) {
    for (AlikeDevices& k : kinds_)
      if (alike(*k.example, device)) return k;
    return kinds_.emplace_back(AlikeDevices{&device, {}});
  }

  std::deque<AlikeDevices> kinds_;
  std::vector<std::pair<AlikeDevices*, OccupancyRank>> ranks_;  // by device
};

}  // namespace

std::vector<Spot> place_efficiency(Layouts& layouts, const PlaceRequest& request) {
  ByOccupancy& index = layouts.index<ByOccupancy>();
  index.update(layouts);
  std::vector<Spot> spots;
  while (static_cast<int>(spots.size()) < request.parts) {
    const std::optional<Fullest> fit = index.fullest(layouts, request);
    if (!fit) return {};
    const size_t device = fit->rank.second;
    index.forget(device);  // until the next call, as operator[] marks it as changed
    spots.push_back({&layouts[device], fit->opening});
  }
  return spots;
}

}  // namespace sluice::policy
