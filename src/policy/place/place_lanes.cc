#include "policy/place/place_lanes.h"

#include <algorithm>
#include <tuple>

#include "base/check.h"
#include "policy/place/offers.h"

namespace sluice::policy {
namespace {

Share begin(const Room& r) {
  return r.position.time_begin;
}
Share end(const Room& r) {
  return r.position.time_begin + r.quota;
}

}  // namespace

// Returns the lane's time between pinned rectangles. Pinned are all that reach into the lane's
// columns, except relocatable ones of the very same columns (and `also_movable`).
std::vector<Lanes::Stretch> Lanes::stretches(Share sm_begin, Share sm,
                                             const Room* also_movable) const {
  std::vector<size_t> walls, members;
  for (size_t i = 0; i < rooms_.size(); ++i) {
    const Room& r = rooms_[i];
    if (!intersect(sm_begin, sm, r.position.sm_begin, r.sm)) continue;
    const bool member = r.position.sm_begin == sm_begin && r.sm == sm;
    (member && (r.movable || &r == also_movable) ? members : walls).push_back(i);
  }
  const auto by_time = [&](size_t a, size_t b) {
    return std::tie(rooms_[a].position.time_begin, rooms_[a].id) <
           std::tie(rooms_[b].position.time_begin, rooms_[b].id);
  };
  std::sort(walls.begin(), walls.end(), by_time);
  std::sort(members.begin(), members.end(), by_time);

  std::vector<Stretch> free;
  Share at = kNone;
  const auto close = [&](Share until) {
    if (until > at) free.push_back({at, until, {}});
  };
  for (const size_t wall : walls) {
    if (rooms_[wall].quota == kNone) continue;
    close(begin(rooms_[wall]));
    at = std::max(at, end(rooms_[wall]));
  }
  close(kWhole);
  for (const size_t member : members) {
    for (Stretch& s : free) {
      if (s.begin <= begin(rooms_[member]) && end(rooms_[member]) <= s.end) {
        s.rooms.push_back(member);
        break;
      }
    }
  }
  return free;
}

Share Lanes::rest(const Stretch& stretch) const {
  Share rest = stretch.end - stretch.begin;
  for (const size_t i : stretch.rooms) rest = rest - rooms_[i].quota;
  return rest;
}

std::vector<Opening> Lanes::openings(Share sm) const {
  // 1. The free intervals of lanes of that width.
  std::vector<Share> lanes;
  for (const Room& r : rooms_) {
    if (r.sm == sm) lanes.push_back(r.position.sm_begin);
  }
  std::sort(lanes.begin(), lanes.end());
  lanes.erase(std::unique(lanes.begin(), lanes.end()), lanes.end());
  std::vector<Opening> found;
  for (const Share sm_begin : lanes) {
    for (const Stretch& s : stretches(sm_begin, sm, nullptr)) {
      if (rest(s) > kNone) found.push_back({sm_begin, sm, s.begin, s.end, rest(s), false});
    }
  }
  // 2. A new lane, as far left as it fits.
  std::vector<Share> begins = {kNone};
  for (const Room& r : rooms_) begins.push_back(r.position.sm_begin + r.sm);
  std::sort(begins.begin(), begins.end());
  for (const Share b : begins) {
    if (b + sm > kWhole) break;
    const bool free = std::none_of(rooms_.begin(), rooms_.end(), [&](const Room& r) {
      return !is_worker(r) && intersect(b, sm, r.position.sm_begin, r.sm);
    });
    if (!free) continue;
    if (const auto lane = new_lane(b, sm)) found.push_back(*lane);
    break;
  }
  return found;
}

// A training worker lies across all columns with a small request, so a new lane has the longest
// interval of time that workers leave.
std::optional<Opening> Lanes::new_lane(Share sm_begin, Share sm) const {
  std::optional<Opening> longest;
  for (const Stretch& s : stretches(sm_begin, sm, nullptr)) {
    const Opening lane{sm_begin, sm, s.begin, s.end, s.end - s.begin, true};
    if (!longest || longest->quota < lane.quota) longest = lane;
  }
  return longest;
}

// Goes to the end of the widest gap: a lane's first two instances then grow towards each other
// without a shift.
void Lanes::place(Room room, const Opening& opening) {
  const Share quota = room.quota;
  SLUICE_CHECK(quota > kNone && quota <= opening.quota, room.id);
  Stretch stretch{opening.time_begin, opening.time_end, {}};
  for (Stretch& s : stretches(opening.sm_begin, opening.sm, nullptr)) {
    if (s.begin == opening.time_begin) stretch = std::move(s);
  }
  Share gap_begin = stretch.begin, best_begin = stretch.begin, best_end = stretch.begin;
  size_t order = 0;
  for (size_t k = 0; k <= stretch.rooms.size(); ++k) {
    const bool last = k == stretch.rooms.size();
    const Share gap_end = last ? stretch.end : begin(rooms_[stretch.rooms[k]]);
    if (gap_end - gap_begin >= best_end - best_begin) {
      best_begin = gap_begin, best_end = gap_end, order = k;
    }
    if (!last) gap_begin = end(rooms_[stretch.rooms[k]]);
  }
  const Share at = stretch.rooms.empty() ? best_begin : std::max(best_begin, best_end - quota);
  const size_t added = rooms_.size();
  room.sm = opening.sm;
  room.quota = kNone;
  room.position = {opening.sm_begin, at};
  rooms_.push_back(std::move(room));
  stretch.rooms.insert(stretch.rooms.begin() + static_cast<std::ptrdiff_t>(order), added);
  make_room(stretch, added, quota);
}

Lanes::Stretch Lanes::stretch_of(size_t room) const {
  const Room& r = rooms_[room];
  for (Stretch& s : stretches(r.position.sm_begin, r.sm, &r)) {
    if (std::find(s.rooms.begin(), s.rooms.end(), room) != s.rooms.end()) return std::move(s);
  }
  return {begin(r), end(r), {room}};  // overlapped already: a shift gains nothing
}

Share Lanes::max_quota(const InstanceId& id) const {
  const size_t i = index(id);
  return rooms_[i].quota + rest(stretch_of(i));
}

void Lanes::resize(const InstanceId& id, Share quota) {
  const size_t i = index(id);
  SLUICE_CHECK(quota > kNone, id);
  if (quota > rooms_[i].quota) {
    make_room(stretch_of(i), i, quota);
  } else {
    rooms_[i].quota = quota;
  }
}

// Gives `room` its quota. Shifts only if the gap around it is too small, and then each neighbour as
// little as possible. The order in the lane stays.
void Lanes::make_room(const Stretch& stretch, size_t room, Share quota) {
  const std::vector<size_t>& lane = stretch.rooms;
  const auto at = std::find(lane.begin(), lane.end(), room);
  Share before = kNone, after = kNone;
  for (auto i = lane.begin(); i < at; ++i) before = before + rooms_[*i].quota;
  for (auto i = at + 1; i < lane.end(); ++i) after = after + rooms_[*i].quota;
  Share low = at == lane.begin() ? stretch.begin : end(rooms_[*(at - 1)]);
  Share high = at + 1 == lane.end() ? stretch.end : begin(rooms_[*(at + 1)]);
  if (high - low < quota) low = stretch.begin + before, high = stretch.end - after;
  SLUICE_CHECK(high - low >= quota, rooms_[room].id);

  Room& r = rooms_[room];
  r.quota = quota;
  r.position.time_begin = std::clamp(begin(r), low, high - quota);
  Share limit = begin(r);
  for (auto i = at; i-- > lane.begin();) {
    Room& left = rooms_[*i];
    left.position.time_begin = std::min(begin(left), limit - left.quota);
    limit = begin(left);
  }
  limit = end(r);
  for (auto i = at + 1; i < lane.end(); ++i) {
    Room& right = rooms_[*i];
    right.position.time_begin = std::max(begin(right), limit);
    limit = end(right);
  }
}

std::unique_ptr<Layout> lanes_layout(const Device& device) {
  return std::make_unique<Lanes>(device);
}

std::vector<Spot> place_lanes(Layouts& layouts, const PlaceRequest& request) {
  return first_offered(layouts, request, Offers::Order::kLeastOccupiedFirst);
}

}  // namespace sluice::policy
