// The `deadline` arbiter, ours: `planned`, with the phases of a lane (clients at the same sm_begin
// and sm) traded among its members. While any member's phase lasts, the one whose oldest waiting
// request has the least time left runs, as long as it is under its request (one that is late
// already goes behind those that can be in time, or it would make these late too); who gave its
// phase away gets another's later in the window. Deadlines also come first among those under their
// request outside the plan, and among borrowers while they can still be met: a request that is late
// anyway borrows as those without, and so does who has borrowed as much again as its request in
// this window. No deadline is the latest of all; with none in a lane each phase is its owner's, as
// under `planned`.
//
// What it guarantees, whatever clients say of their deadlines:
//   - Whoever has work throughout a window gets its request in it, as under `planned`: a trade only
//     moves use within the window, in columns and time that the lane has in the plan anyway, and
//     nobody takes more of others' than its own phase is long, used or not. Only the overruns
//     differ: operators that run over the end of their client's permit add up along a lane's order,
//     so that the last in it may miss one operator of each member in a window, where `planned`
//     misses one; it gets them in the windows after.
//   - Idle time is lent up to the limits, and nobody exceeds its limit. Of it nobody gets ahead of
//     others, by what it says, to more than one more request in a window.
//   - While a phase of a lane lasts, no member that is under its request and has had less of the
//     lane's phases than its own is long waits longer than one operator for one with a later
//     deadline, unless that one was robbed or it is late itself.
// What it does not: that a deadline is met, whatever is needed beyond the request; and between
// lanes and clients of different widths the plan decides, not the deadline. Not thread-safe.
#pragma once

#include <vector>

#include "policy/share_planned.h"

namespace sluice::policy {

class DeadlineArbiter : public PlannedArbiter {
 public:
  using PlannedArbiter::PlannedArbiter;

  Result<void> admit(const ShareClient& client, Time now) override;
  void remove(ClientId id, Time now) override;
  void deadline(ClientId id, Time due, Time now) override { accounts_.deadline(id, due, now); }
  std::string_view name() const override { return "deadline"; }

 private:
  struct Phase {
    Time end{};                         // of the one that lasts now; else past
    Time next_begin = Time::max();      // of another in this window
    const Account* owner = nullptr;     // whose it is by the plan
    bool owner_waits = false;           // for it, not having had another's
    Candidate* first = nullptr;         // who has the phase: until the choice is made
    Account* holder = nullptr;          // the same, after
    const Candidate* robbed = nullptr;  // if that is denied, at whose cost
  };
  struct Lane {
    Share sm_begin, sm;
    std::vector<const Account*> plan;  // whose phases, in their order
    Phase phase;
  };

  void arrange();
  void count_phases(Time now);
  Phase find_phase(const Lane& lane, Time now) const;
  Nanos phase_left(const Account& a) const { return a.request - a.phase_had; }
  void order(Candidate& candidate, Time now);
  Phase& phase_of(const Account& a) { return lanes_[lane_[&a - accounts_.all().data()]].phase; }
  const Phase& phase_of(const Account& a) const {
    return lanes_[lane_[&a - accounts_.all().data()]].phase;
  }

  void trade_phases(Time now) override;
  void note_denied(Time now) override;
  Time next_phase(Time now) const override;

  std::vector<Lane> lanes_;
  std::vector<size_t> lane_;  // of each account, in their order
  Time last_step_{};
};

}  // namespace sluice::policy
