// place_lanes: where an instance may lie on one device, in HAS-GPU's SM lanes. The SM dimension is
// cut in lanes. All instances of a lane have its width and take turns. So their quotas add up to at
// most the whole window, and the widths to at most the whole device. Unlike the paper it also
// decides *when* in the window each has its turn: the rectangles never overlap in sm × time, and
// the `planned` arbiter keeps them.
//
// Quotas grow and shrink, so a rectangle may have to be shifted in time for its neighbour. A shift
// is free (no restart), but only done to relocatable (`movable`) rectangles. All others are pinned,
// whether they are of the same lane or rectangles of other bundles across it.
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "policy/place/place.h"

namespace sluice::policy {

class Lanes final : public Layout {
 public:
  using Layout::Layout;

  // Lanes in use first, then by sm_begin and time_begin.
  std::vector<Opening> openings(Share sm) const override;
  void place(Room room, const Opening& opening) override;
  // 1 − the quotas of the others in its lane, except pinned ones.
  Share max_quota(const InstanceId& id) const override;
  void resize(const InstanceId& id, Share quota) override;

 private:
  struct Stretch {  // of a lane's time, between pinned ones; its rectangles by time_begin
    Share begin, end;
    std::vector<size_t> rooms;
  };
  std::vector<Stretch> stretches(Share sm_begin, Share sm, const Room* also_movable) const;
  std::optional<Opening> new_lane(Share sm_begin, Share sm) const;
  Share rest(const Stretch& stretch) const;
  Stretch stretch_of(size_t room) const;
  void make_room(const Stretch& stretch, size_t room, Share quota);
};

std::unique_ptr<Layout> lanes_layout(const Device& device);

// Takes the least occupied used device first, then a new one.
std::vector<Spot> place_lanes(Layouts& layouts, const PlaceRequest& request);

}  // namespace sluice::policy
