// place_rectangles: FaST-GShare's maximal rectangles (its Algorithm 2). A device is a rectangle,
// 100 % sm × 100 % of the window. Its free space is the list of its maximal free rectangles; they
// overlap, and none lies within another.
//
//   1. An instance takes, of all devices' free rectangles with W ≥ w and H ≥ h, the one with the
//      least W·H − w·h; of equal ones the device with the least memory left, then by id. (The paper
//      prints W ≤ w.) An empty device is the largest rectangle, and so the last choice.
//   2. It lies in the rectangle's first columns, at the beginning of its time ("bottom-left").
//   3. What it cuts is divided into up to four maximal pieces. A piece within another is dropped.
//
// Keep-restructure: a released rectangle is offered again as it is (offer_again), beside the
// maximal ones, so that the next instance of that size leaves no fragment. Once a device has more
// than kMostFree of both, its released ones are forgotten, and its relocatable instances move to
// the earliest time that they reach without passing another. Such a shift is free. Pinned instances
// stay, and no instance changes its columns.
#pragma once

#include <compare>
#include <memory>
#include <vector>

#include "policy/place/place.h"

namespace sluice::policy {

struct Rectangle {
  Share sm_begin, sm;
  Share time_begin, time;

  constexpr auto operator<=>(const Rectangle&) const = default;
};
Rectangle rectangle_of(const Room& room);
bool overlap(const Rectangle& a, const Rectangle& b);

// Takes `taken` out of maximal free rectangles; they are maximal again.
void cut_out(std::vector<Rectangle>& free, const Rectangle& taken);

class FreeIndex;

class Rectangles final : public Layout {
 public:
  static constexpr size_t kMostFree = 12;

  using Layout::Layout;

  const std::vector<Rectangle>& free() const;  // maximal
  const std::vector<Rectangle>& released() const { return released_; }
  // Ignored unless it is free and not among those already.
  void offer_again(const Rectangle& rectangle);
  // Restructures if there are more than kMostFree of both.
  void tidy();

  // The least area first.
  std::vector<Opening> openings(Share sm) const override;
  void place(Room room, const Opening& opening) override;
  // Up to its neighbours in time.
  Share max_quota(const InstanceId& id) const override;
  void resize(const InstanceId& id, Share quota) override;

 private:
  friend class FreeIndex;

  struct Interval {
    Share begin, end;
  };
  Interval around(const Room& room) const;  // its time, with what is free before and behind it
  void settle();
  void rebuild();
  void report();

  static constexpr size_t kNothing = static_cast<size_t>(-1);
  mutable std::vector<Rectangle> free_;
  mutable size_t seen_ = kNothing;  // so many of the rooms are taken out of free_
  std::vector<Rectangle> released_;
  std::shared_ptr<FreeIndex> index_;  // of all devices, once a spot was asked for
  uint32_t at_ = 0;                   // there
};

std::unique_ptr<Layout> rectangles_layout(const Device& device);

// REQUIRES: the layouts are Rectangles, with all rectangles that were there before the first
// request.
std::vector<Spot> place_rectangles(Layouts& layouts, const PlaceRequest& request);

}  // namespace sluice::policy
