// place_lanes: where an instance may lie on one device, in HAS-GPU's SM lanes. The SM dimension is
// cut in lanes; all instances of a lane have its width and take turns, so their quotas add up to at
// most the whole window, and the widths to at most the whole device. Unlike the paper we also say
// *when* in the window each has its turn: the rooms handed out never overlap in sm × time, which is
// what the `planned` arbiter keeps.
//
// Quotas grow and shrink, so a room may have to be shifted in time for its neighbour's sake. That
// is free (no restart), but only done to rooms that are `movable`; all others are walls, be they of
// the same lane or rectangles of other bundles that lie across it.
//
// A plain value, not thread-safe.
#pragma once

#include <vector>

#include "model/device.h"
#include "model/instance.h"

namespace sluice::policy {

// What one instance holds on a device.
struct Room {
  InstanceId id;
  Share sm;
  Share quota;
  Position position;
  Bytes memory = 0;
  bool movable = false;

  bool operator==(const Room&) const = default;
};
bool overlap(const Room& a, const Room& b);

// Where another instance could go: a lane's rest, or a new lane.
struct Opening {
  Share sm_begin;
  Share sm;
  Share time_begin;  // the stretch of the window it lies in …
  Share time_end;
  Share quota;  // … and the largest quota that fits there
  bool new_lane = false;
};

class Lanes {
 public:
  explicit Lanes(const Device& device) : device_(device) {}

  void add(const Room& room) { rooms_.push_back(room); }

  const Device& device() const { return device_; }
  const std::vector<Room>& rooms() const { return rooms_; }
  const Room& room(const InstanceId& id) const;  // REQUIRES: it is here
  bool used() const { return !rooms_.empty(); }
  int64_t occupancy() const;  // HGO: Σ sm × quota, in thousandths × thousandths
  Bytes free_memory() const;

  // The width that the device can hold for `sm`: a multiple of its quantum, or the whole.
  Share width(Share sm) const;

  // Openings for that width, lanes in use first, then by sm_begin and time_begin.
  // REQUIRES: sm == width(sm)
  std::vector<Opening> openings(Share sm) const;

  // Takes `quota` of an opening that openings() just named. May shift movable rooms of the lane.
  void place(const InstanceId& id, const Opening& opening, Share quota, Bytes memory, bool movable);

  // The largest quota that the instance could have: 1 − those of the others in its lane, walls
  // apart.
  Share max_quota(const InstanceId& id) const;

  // REQUIRES: 0 < quota ≤ max_quota(id). May shift movable rooms of the lane.
  void resize(const InstanceId& id, Share quota);

  // From now on a wall.
  void pin(const InstanceId& id) { rooms_[index(id)].movable = false; }

 private:
  struct Stretch {  // of a lane's time, between walls; its rooms by time_begin
    Share begin, end;
    std::vector<size_t> rooms;
  };
  std::vector<Stretch> stretches(Share sm_begin, Share sm, const Room* also_movable) const;
  Share rest(const Stretch& stretch) const;
  Stretch stretch_of(size_t room) const;
  size_t index(const InstanceId& id) const;
  void make_room(const Stretch& stretch, size_t room, Share quota);

  Device device_;
  std::vector<Room> rooms_;
};

}  // namespace sluice::policy
