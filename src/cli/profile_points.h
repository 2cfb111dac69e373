// The points that a profile measures on a device, and their order: batch × sm × quota, either as
// the user lists them or by the name of a paper's. Pure; plain values.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/clock.h"
#include "base/result.h"
#include "model/device.h"
#include "model/predictor.h"
#include "profile/search.h"

namespace sluice::cli {

// Points by name: every quota at every width.
struct NamedPoints {
  std::string_view name, meaning;
  std::vector<Share> quotas, sms;
};
const std::vector<NamedPoints>& named_points();
// Returns nullptr for a name that is none of theirs.
const NamedPoints* named_points(std::string_view name);

struct Sweep {
  std::vector<int> batches{1, 2, 4, 8};
  std::vector<Share> quotas{{1000}, {700}, {400}, {200}, {100}};
  // None: each width that a CPU device can have, and `gpu_sms` of a GPU.
  std::vector<Share> sms, gpu_sms{{1000}, {500}, {250}};
  bool needs_sms = false;          // a device that cannot have them is an error
  Nanos per_point = Millis(1000);  // at least, and at least three batches
  // Points that would end later are left out, the last ones first; the table extrapolates there. 0:
  // none is left out. Starts do not count.
  Nanos budget{0};
  // Which of the points are tried, in which order; nullptr: all of them, as they come.
  const profile::SearchPlan* plan = nullptr;
  Nanos in_time = Nanos::max();  // for the plan: the longest that a batch may take
  int most_trials = 1000;
  // What a program is asked: with protocol http at `path`, by GET where there is no body.
  std::string path = "/", body;
};

// What of a device a measurement may use.
struct ProfileRoom {
  Device device;
  Share quota;
  Bytes memory = 0;       // that is free; only what an instance may hold is counted on a GPU
  std::string undivided;  // why an instance has all of its SMs or cores; empty: it may have a part
};

// Returns the widths to measure at, descending: what the sweep wants, rounded up to the device's
// quantum. Where the device is undivided that is its whole width, or kInvalid if the sweep needs
// another.
Result<std::vector<Share>> widths_in(const ProfileRoom& room, const Sweep& sweep);

// Returns the points in the order of their measurement. The largest quotas come first, so that the
// slice only shrinks; where an instance's sm cannot change, so do the largest widths before them,
// so that each costs one start. Quotas above the free time are replaced by it.
std::vector<Configuration> points_in(const ProfileRoom& room, const Sweep& sweep,
                                     const std::vector<Share>& widths);

// Returns what a plan may try: tenths of the device's time, which Dilu's search goes by.
profile::Grid grid_in(const ProfileRoom& room, const Sweep& sweep, std::vector<Share> widths);

}  // namespace sluice::cli
