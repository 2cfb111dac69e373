#include "arbiters/deadline.h"

#include <algorithm>

namespace sluice::policy {
namespace {

// Added to a missed deadline, so that it comes after every one that can still be met: the clock
// will never be as late. Clients without a deadline come after both.
constexpr int64_t kMissed = INT64_MAX / 4;
constexpr int64_t kNoDeadline = INT64_MAX / 2;

}  // namespace

Result<void> DeadlineArbiter::admit(const ShareClient& client, Time now) {
  SLUICE_TRY(PlannedArbiter::admit(client, now));
  arrange();
  return {};
}

void DeadlineArbiter::remove(ClientId id, Time now) {
  PlannedArbiter::remove(id, now);
  arrange();
}

void DeadlineArbiter::arrange() {
  lanes_.clear();
  lane_.clear();
  for (const Account& a : accounts_.all()) {
    const Share begin = a.client.position.sm_begin;
    auto at = std::find_if(lanes_.begin(), lanes_.end(), [&](const Lane& l) {
      return l.sm_begin == begin && l.sm == a.client.sm;
    });
    if (at == lanes_.end()) at = lanes_.insert(at, {.sm_begin = begin, .sm = a.client.sm});
    lane_.push_back(at - lanes_.begin());
    if (a.request > Nanos(0)) at->plan.push_back(&a);
  }
  for (Lane& lane : lanes_) {
    std::ranges::sort(lane.plan, {}, [](const Account* a) { return a->phase_begin; });
  }
}

// Charges the holders of phases for the time since the last step. Time counts, not use, so that a
// holder that is not busy pays for it. A phase that its owner does not want is free.
void DeadlineArbiter::count_phases(Time now) {
  const Time since = std::max(last_step_, accounts_.window_start());
  for (const Lane& lane : lanes_) {
    const Phase& phase = lane.phase;
    if (!phase.owner_waits || phase.holder == nullptr || !phase.holder->granted()) continue;
    phase.holder->phase_had += std::max(std::min(now, phase.end) - since, Nanos(0));
  }
  last_step_ = now;
}

DeadlineArbiter::Phase DeadlineArbiter::find_phase(const Lane& lane, Time now) const {
  Phase phase;
  for (const Account* a : lane.plan) {
    if (in_phase(*a, now)) {
      phase.owner = a;
      phase.end = phase_end(*a);
    } else if (phase_begin(*a) > now) {
      phase.next_begin = phase_begin(*a);
      break;
    }
  }
  return phase;
}

// Turns are for clients without a deadline; among these a phase is its owner's, as in the plan.
void DeadlineArbiter::order(Candidate& c, Time now) {
  const Account& a = *c.account;
  bool urgent = a.due != Time::max();
  if (urgent && c.claim == kBorrower) {
    const Nanos borrowed = a.limit - a.room_left(now) - a.request;
    c.budget = a.request - borrowed;
    urgent = a.due > now && c.budget >= kLeastGrant;
    if (!urgent) c.budget = Nanos::max();
  }
  if (urgent) {
    c.order = a.due.time_since_epoch().count() + (a.due > now ? 0 : kMissed);
    c.turn_over = false;
  } else if (c.claim == kInPhase) {
    c.order = kNoDeadline;
    c.turn_over = false;
  } else {
    c.order += INT64_MAX - INT64_MAX / 4;
  }
}

void DeadlineArbiter::trade_phases(Time now) {
  count_phases(now);
  for (Lane& lane : lanes_) lane.phase = find_phase(lane, now);
  for (Candidate& c : choice_.candidates()) {
    if (c.claim == kRobbed || c.claim > kBorrower) continue;
    order(c, now);
    if (c.claim == kBorrower) continue;
    c.claim = kOwed;
    Phase& phase = phase_of(*c.account);
    if (phase.end <= now || phase_left(*c.account) <= Nanos(0)) continue;
    phase.owner_waits |= phase.owner == c.account;
    if (phase.first == nullptr || c.before(*phase.first)) phase.first = &c;
  }
  for (Lane& lane : lanes_) {
    Phase& phase = lane.phase;
    if (phase.first == nullptr) continue;
    phase.first->claim = kInPhase;
    phase.holder = phase.first->account;
  }
}

// Time that a lane loses of a phase because its space is not free yet is lost by the phase's owner.
// If the owner has had another's phase for it, the last client in the lane's order loses it.
void DeadlineArbiter::note_denied(Time now) {
  for (const Candidate& c : choice_.candidates()) {
    const Account& a = *c.account;
    if (c.claim > kOwed || a.granted() || phase_left(a) <= Nanos(0)) continue;
    Phase& phase = phase_of(a);
    const bool taken = phase.holder != nullptr && phase.holder->granted();
    if (taken || phase.end <= now) continue;
    const bool traded = phase_left(*phase.owner) <= Nanos(0);
    if (phase.owner == &a || (traded && (phase.deprived == nullptr || phase.deprived->before(c))))
      phase.deprived = &c;
  }
  for (const Lane& lane : lanes_) {
    const Phase& phase = lane.phase;
    if (phase.deprived != nullptr) accounts_.block(*phase.deprived->account, phase.end);
  }
}

Time DeadlineArbiter::next_phase(Time now) const {
  Time next = Time::max();
  for (const Candidate& c : choice_.candidates()) {
    const Account& a = *c.account;
    if (c.claim > kOwed) continue;
    if (!a.granted()) {
      next = std::min(next, phase_of(a).next_begin);
    } else if (c.claim == kInPhase && a.others_wait) {
      next = std::min({next, phase_of(a).end, now + phase_left(a)});
    }
  }
  return next;
}

}  // namespace sluice::policy
