// Layout: one device with its instances' rectangles, and the free rectangles for another. The
// implementation decides how they may lie: in lanes, as free rectangles, or as sums alone.
//
// A value over a Device that must outlive it. Not thread-safe.
#pragma once

#include <optional>
#include <string_view>
#include <vector>

#include "model/device.h"
#include "model/instance.h"
#include "model/snapshot.h"

namespace sluice::policy {

// The rectangle of one instance on a device.
struct Room {
  InstanceId id;
  Share sm;
  Share quota;  // its request
  Position position;
  Bytes memory = 0;
  bool movable = false;                 // may be shifted in time
  Share limit = quota;                  // the most that it may borrow
  const FunctionView* owner = nullptr;  // null: a program's, or of a deleted function
  // The one that the device runs for it; empty: unknown, or any.
  std::string_view arbiter = {};

  bool operator==(const Room&) const = default;
};
// Returns the rectangle of an instance's first part.
Room room_of(const Instance& i, bool movable, const FunctionView* owner = nullptr);
// Returns whether two intervals of one dimension intersect.
bool intersect(Share a_begin, Share a_length, Share b_begin, Share b_length);
bool overlap(const Room& a, const Room& b);
// Returns whether it is the rectangle of a training job's worker.
bool is_worker(const Room& room);

// A free rectangle for another instance.
struct Opening {
  Share sm_begin;
  Share sm;
  Share time_begin;  // the interval of the window it lies in …
  Share time_end;
  Share quota;            // … and the largest quota that fits there
  bool new_lane = false;  // its columns are free so far
};

// Returns the arbiter that the device runs for another instance of a bundle that names `named`.
// That is the one that the user fixed; else `named` itself, if the device runs it for the instances
// there (`runs`; empty: for none); else arbiter_on(kind, named). Empty if `named` is and the user
// fixed none.
std::string_view arbiter_for(const Device& device, std::string_view runs, std::string_view named);

class Layout {
 public:
  explicit Layout(const Device& device) : device_(&device) {}
  virtual ~Layout() = default;

  const Device& device() const { return *device_; }
  const std::vector<Room>& rooms() const { return rooms_; }
  const Room& room(const InstanceId& id) const { return rooms_[index(id)]; }  // REQUIRES: is here
  bool used() const { return !rooms_.empty(); }
  // Returns the rectangle whose arbiter the device runs; nullptr if the device may run any, or its
  // user fixed its arbiter.
  const Room* arbiter_from() const;
  // Returns the arbiter that another instance of the planning bundle has here (arbiter_for).
  std::string_view arbiter() const;
  // Returns whether the device runs another one, and so takes no instance of that bundle.
  bool runs_another() const;
  int64_t occupancy() const;  // HGO: Σ sm × quota, in thousandths × thousandths
  Bytes free_memory() const;
  // Returns the width that the device can hold for `sm`: a multiple of its quantum, or the whole.
  Share width(Share sm) const;
  // Returns the free rectangle of the largest sm × quota; nothing if the device is full.
  std::optional<Opening> largest_opening() const;

  // Names the planning bundle's arbiter; empty: any.
  void plan_for(std::string_view arbiter) { arbiter_ = arbiter; }
  void add(const Room& room) { rooms_.push_back(room); }
  void set_limit(const InstanceId& id, Share limit) { rooms_[index(id)].limit = limit; }
  // It may not be shifted from now on.
  void pin(const InstanceId& id) { rooms_[index(id)].movable = false; }

  // Returns the free rectangles for that width, the best first.
  // REQUIRES: sm == width(sm)
  virtual std::vector<Opening> openings(Share sm) const = 0;
  // Puts a rectangle of `quota` into one that openings() just returned, which determines its
  // position and width. May shift relocatable (movable) ones.
  virtual void place(Room room, const Opening& opening) = 0;
  // Returns the largest quota that the instance could have in its place.
  virtual Share max_quota(const InstanceId& id) const = 0;
  // REQUIRES: 0 < quota ≤ max_quota(id). May shift relocatable rectangles.
  virtual void resize(const InstanceId& id, Share quota) = 0;

 protected:
  Layout(const Layout&) = default;
  Layout& operator=(const Layout&) = default;
  size_t index(const InstanceId& id) const;

  std::vector<Room> rooms_;

 private:
  const Device* device_;
  std::string_view arbiter_;  // that the planning bundle names
};

}  // namespace sluice::policy
