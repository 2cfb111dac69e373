#include "policy/place/offers.h"

#include <algorithm>

namespace sluice::policy {

const Offers::ByQuota& Offers::used(Kind& kind, const Layouts& layouts, Share sm) {
  const auto [at, asked_first] = kind.by_width_.try_emplace(sm);
  if (asked_first)
    for (const Rank& rank : kind.used_) offer(layouts, sm, at->second, rank.second);
  return at->second;
}

std::optional<size_t> Offers::unused(Kind& kind, const Layouts& layouts, Bytes memory,
                                     std::span<const size_t> but) {
  const std::vector<size_t>& all = kind.unused_;
  while (kind.begin_ < all.size() && layouts[all[kind.begin_]].used()) ++kind.begin_;
  for (size_t k = kind.begin_; k < all.size(); ++k) {
    const Layout& device = layouts[all[k]];
    if (!device.used() && device.free_memory() >= memory &&
        std::ranges::find(but, all[k]) == but.end())
      return all[k];
  }
  return std::nullopt;
}

void Offers::offer(const Layouts& layouts, Share sm, ByQuota& offers, size_t i) {
  Known& known = known_[i];
  for (const Opening& opening : layouts[i].openings(sm))
    if (offers[opening.quota].insert(*known.rank).second)
      known.under.emplace_back(&offers, opening.quota);
}

void Offers::add(const Layouts& layouts, size_t i) {
  Known& known = known_[i];
  const int64_t occupancy = layouts[i].occupancy();
  known.rank = {order_ == Order::kFullestFirst ? -occupancy : occupancy, i};
  known.kind->used_.insert(*known.rank);
  for (auto& [sm, offers] : known.kind->by_width_) offer(layouts, sm, offers, i);
}

void Offers::remove(size_t i) {
  Known& known = known_[i];
  if (!known.rank) return;
  known.kind->used_.erase(*known.rank);
  for (const auto& [offers, quota] : known.under) {
    const auto devices = offers->find(quota);
    devices->second.erase(*known.rank);
    if (devices->second.empty()) offers->erase(devices);
  }
  known.under.clear();
  known.rank.reset();
}

Offers::Kind& Offers::kind_of(const Device& device) {
  for (Kind& k : kinds_)
    if (alike(k.example(), device) && k.example().sm_quantum == device.sm_quantum) return k;
  return kinds_.emplace_back(device);
}

std::deque<Offers::Kind>& Offers::update(Layouts& layouts) {
  known_.resize(layouts.size());
  for (const size_t i : layouts.take_changed()) {
    remove(i);
    const Layout& device = std::as_const(layouts)[i];
    if (!takes(device, 0)) continue;
    Known& known = known_[i];
    if (known.kind == nullptr) known.kind = &kind_of(device.device());
    if (device.used()) {
      add(layouts, i);
    } else if (!std::exchange(known.unused, true)) {
      std::vector<size_t>& unused = known.kind->unused_;
      unused.insert(std::ranges::upper_bound(unused, i), i);
    }
  }
  return kinds_;
}

std::optional<Offers::Rank> first_of(const Offers::Devices& devices, const Layouts& layouts,
                                     Bytes memory, const std::optional<Offers::Rank>& bound,
                                     std::span<const size_t> but) {
  for (const Offers::Rank& rank : devices) {
    if (bound && *bound <= rank) return std::nullopt;
    if (layouts[rank.second].free_memory() >= memory &&
        std::ranges::find(but, rank.second) == but.end())
      return rank;
  }
  return std::nullopt;
}

namespace {

// Returns the next device beside those of `but`.
std::optional<size_t> next_device(Offers& offers, std::deque<Offers::Kind>& kinds,
                                  const Layouts& layouts, const PlaceRequest& request,
                                  std::span<const size_t> but) {
  std::optional<Offers::Rank> used;
  std::optional<size_t> unused;
  for (Offers::Kind& kind : kinds) {
    if (request.like != nullptr && !alike(*request.like, kind.example())) continue;
    const Share sm = std::min(round_up(request.sm, kind.example().sm_quantum), kWhole);
    const Offers::ByQuota& offered = offers.used(kind, layouts, sm);
    for (auto of = offered.lower_bound(request.quota.request); of != offered.end(); ++of)
      if (const auto rank = first_of(of->second, layouts, request.memory, used, but)) used = rank;
    const auto next = used ? std::nullopt : Offers::unused(kind, layouts, request.memory, but);
    if (next && (!unused || *next < *unused)) unused = next;
  }
  return used ? std::optional(used->second) : unused;
}

}  // namespace

std::vector<Spot> first_offered(Layouts& layouts, const PlaceRequest& request,
                                Offers::Order order) {
  auto& offers = layouts.index<Offers>(order);
  auto& kinds = offers.update(layouts);
  std::vector<size_t> chosen;
  while (static_cast<int>(chosen.size()) < request.parts) {
    const auto next = next_device(offers, kinds, layouts, request, chosen);
    if (!next) return {};
    chosen.push_back(*next);
  }
  std::vector<Spot> spots;
  for (const size_t d : chosen) {
    Layout& device = layouts[d];  // it counts as changed at the next update()
    for (const Opening& opening : device.openings(device.width(request.sm)))
      if (opening.quota >= request.quota.request) {
        spots.push_back({&device, opening});
        break;
      }
  }
  return static_cast<int>(spots.size()) == request.parts ? spots : std::vector<Spot>();
}

}  // namespace sluice::policy
