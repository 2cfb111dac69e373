#include "node/shift_room.h"

#include <algorithm>

#include "policy/place/place_lanes.h"

namespace sluice::node {
namespace {

// Returns false if that does not suffice.
bool make_room(policy::Lanes& lanes, const InstanceId& id, const Slice& wanted, bool held) {
  const Share request = wanted.quota.request;
  const Bytes has = held ? lanes.room(id).memory : 0;
  if (wanted.memory - has > lanes.free_memory()) return false;
  if (held) {
    if (lanes.room(id).sm != wanted.sm || lanes.max_quota(id) < request) return false;
    lanes.resize(id, request);
    return true;
  }
  for (const policy::Opening& opening : lanes.openings(wanted.sm)) {
    if (opening.quota < request) continue;
    lanes.place({.id = id, .quota = request, .memory = wanted.memory, .movable = true}, opening);
    return true;
  }
  return false;
}

}  // namespace

std::vector<Shift> shifts_for(const Ledger& ledger, const InstanceId& id, const DeviceId& device,
                              const Slice& wanted,
                              const std::function<bool(const InstanceId&)>& movable) {
  const Device* d = ledger.find(device);
  if (d == nullptr) return {};
  policy::Lanes lanes(*d);
  bool held = false;
  for (const auto& [other, promise] : ledger.promises()) {
    const Part* p = part_on(promise.parts, device);
    if (p == nullptr) continue;
    held |= other == id;
    lanes.add({other, p->slice.sm, p->slice.quota.request, p->position, p->slice.memory,
               other == id || movable(other)});
  }
  if (d->drained && !held) return {};
  if (lanes.width(wanted.sm) != wanted.sm || !make_room(lanes, id, wanted, held)) return {};

  // Slices that move left go in the order of their places, those that move right in the opposite
  // order: so the next place is always free.
  std::vector<Shift> left, right;
  for (const policy::Room& room : lanes.rooms()) {
    if (room.id == id) continue;
    const Position& from = part_on(ledger.promises().at(room.id).parts, device)->position;
    if (room.position == from) continue;
    (room.position.time_begin < from.time_begin ? left : right).push_back({room.id, room.position});
  }
  const auto by_time = [](const Shift& s) { return s.to.time_begin; };
  std::ranges::sort(left, {}, by_time);
  std::ranges::sort(right, std::ranges::greater(), by_time);
  left.insert(left.end(), right.begin(), right.end());
  left.push_back({id, lanes.room(id).position});
  return left;
}

}  // namespace sluice::node
