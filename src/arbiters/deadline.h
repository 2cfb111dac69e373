// The `deadline` arbiter, ours: `planned`, except that the members of a lane (clients at the same
// sm_begin and sm) trade its phases.
//
// During any member's phase, the member whose oldest waiting request has the least time left runs,
// as long as it is under its request. A member whose request is late already comes after those that
// can be in time, or it would make these late too. A member that gave its phase away gets another's
// later in the window.
//
// Deadlines also order clients under their request outside the plan, and borrowers whose deadline
// can still be met. A borrower whose request is late anyway counts as one without a deadline. So
// does one that has borrowed as much as its request in this window. A client without a deadline
// comes last; in a lane without deadlines each phase stays with its owner, as under `planned`.
//
// Guarantees, whatever deadlines clients report:
//   - A client with work throughout a window gets its request in it, as under `planned`. A trade
//     only moves use within the window, in columns and time that the plan gives the lane. No member
//     takes more of others' phases than its own is long, used or not. Only overruns differ:
//     operators that run past their client's permit add up along a lane's order. The last in it may
//     thus miss one operator of each member in a window, where `planned` misses one; it gets them
//     in later windows.
//   - Idle time is lent up to the limits, and no client exceeds its limit. Reported deadlines gain
//     a client at most one more request of idle time in a window.
//   - During a phase of a lane, a member waits at most one operator for a member with a later
//     deadline, if it is under its request and has had less of the lane's phases than its own is
//     long. This does not hold if that other member has a deficit, or if the waiting one is late.
// Not guaranteed: a deadline that needs time beyond the request. Between lanes, and between clients
// of different widths, the plan decides, not the deadline. Not thread-safe.
#pragma once

#include <vector>

#include "arbiters/planned.h"

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
    Time end{};                           // of the current phase; else past
    Time next_begin = Time::max();        // of the next phase in this window
    const Account* owner = nullptr;       // the phase's client by the plan
    bool owner_waits = false;             // it waits for its phase, and has not had another's
    Candidate* first = nullptr;           // has the phase; until the choice is made
    Account* holder = nullptr;            // the same, after the choice
    const Candidate* deprived = nullptr;  // the candidate at whose cost a delayed phase is lost
  };
  struct Lane {
    Share sm_begin, sm;
    std::vector<const Account*> plan;  // the owners of the phases, in the plan's order
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
  std::vector<size_t> lane_;  // the lane of each account, in the accounts' order
  Time last_step_{};
};

}  // namespace sluice::policy
