// How the busy clients of a device share it, as long as none comes, goes or changes: what one
// window of the device's arbiter gives to each of them. The window is played in hundredths.
// In each of them the clients with the first claims run, as far as they fit, by the arbiter's rule:
//
//   arbiter                 first claim                               lends                fit
//   planned, deadline       in its phase, then what its request lacks to all, by use÷limit  sm ≤ 1
//   multi_token             what its request lacks                    to all, by use÷limit  sm ≤ 1
//   window                  what its request lacks                    within its lane       one of
//                                                                                           a lane
//   tgs                     the least used part of its limit          —                     sm ≤ 1
//   introspective           all at once, up to the limit              —                     always
//   share_fixed_*           all at once, up to the share              never                 always
//
// What differs from a stepped device is what the arbiter does within a window and from one to the
// next: grants, debts, deficits, drains, hints. docs/simulator.md states the bound. Pure.
#pragma once

#include <span>
#include <string_view>

#include "arbiters/arbiter.h"

namespace sluice::sim {

// An arbiter as a rule.
struct SharingRule {
  std::string_view arbiter;
  bool keeps_phases = false;    // a client goes first while its rectangle covers the moment
  bool keeps_requests = false;  // what a request lacks goes before what is lent
  bool lends = true;            // beyond the request up to the limit
  enum class Fit { kDevice, kLane, kAlways } fit = Fit::kDevice;
  bool bounded = true;  // docs/simulator.md's bound holds
};

// Returns nullptr for an unknown arbiter.
const SharingRule* find_sharing(std::string_view arbiter);

// A busy client's part of the time, in millionths.
struct Sharer {
  const policy::ShareClient* client = nullptr;
  Share limit;       // the most that it may use
  int64_t busy = 0;  // busy time that passes in a moment
  int64_t work = 0;  // work that it does: less, where others slow it down
};

// Sets `busy` and `work` of each.
void share_window(const SharingRule& rule, Share contention, std::span<Sharer> sharers);

// Returns how long busy time takes beside others that run on so much sm, in permille: above 1000
// where the device's sm are overbooked. Its clients then wait for each other, and to wait is not
// use.
int crowding(Share sm, Share others);

// Returns how long work takes beside them, in permille of the time alone.
int slowness(Share sm, Share others, Share contention);

}  // namespace sluice::sim
