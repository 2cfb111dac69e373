#include "policy/share_deadline.h"

#include <algorithm>

namespace sluice::policy {
namespace {

// Added to a missed deadline: it comes after every one that can still be met, for the clock will
// never be as late. Those without any come after both.
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
    const auto at = std::find_if(lanes_.begin(), lanes_.end(), [&](const Lane& l) {
      return l.sm_begin == begin && l.sm == a.client.sm;
    });
    lane_.push_back(at - lanes_.begin());
    if (at == lanes_.end()) lanes_.push_back({.sm_begin = begin, .sm = a.client.sm});
  }
}

// What the holders of phases had of them since the last step: in time, not in use, so that one that
// holds without being busy does so at its own cost. A phase that its owner does not want is free.
void DeadlineArbiter::count_phases(Time now) {
  const Time since = std::max(last_step_, accounts_.window_start());
  for (const Lane& lane : lanes_) {
    if (!lane.owner_waits || lane.holder == nullptr || !lane.holder->granted()) continue;
    lane.holder->phase_had += std::max(std::min(now, lane.phase_end) - since, Nanos(0));
  }
  last_step_ = now;
}

void DeadlineArbiter::find_phases(Time now) {
  for (Lane& lane : lanes_) lane = {.sm_begin = lane.sm_begin, .sm = lane.sm};
  for (const Account& a : accounts_.all()) {
    if (a.request == Nanos(0)) continue;
    Lane& lane = lane_of(a);
    if (in_phase(a, now)) {
      lane.owner = &a;
      lane.phase_end = phase_end(a);
    }
    if (phase_begin(a) > now) lane.next_begin = std::min(lane.next_begin, phase_begin(a));
  }
}

// Turns are for those without a deadline; and among them a phase is its owner's, as in the plan.
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
  find_phases(now);
  for (Candidate& c : choice_.candidates()) {
    if (c.claim == kRobbed || c.claim > kBorrower) continue;
    order(c, now);
    if (c.claim == kBorrower) continue;
    c.claim = kOwed;
    Lane& lane = lane_of(*c.account);
    if (lane.phase_end <= now || phase_left(*c.account) <= Nanos(0)) continue;
    lane.owner_waits |= lane.owner == c.account;
    if (lane.first == nullptr || c.before(*lane.first)) lane.first = &c;
  }
  for (Lane& lane : lanes_) {
    if (lane.first == nullptr) continue;
    lane.first->claim = kInPhase;
    lane.holder = lane.first->account;
  }
}

// What a lane loses of a phase because its room is not free yet, it loses at the cost of the
// phase's owner; if that one has had another's for it, of the last in the lane's order.
void DeadlineArbiter::note_denied(Time now) {
  for (const Candidate& c : choice_.candidates()) {
    const Account& a = *c.account;
    if (c.claim > kOwed || a.granted() || phase_left(a) <= Nanos(0)) continue;
    Lane& lane = lane_of(a);
    const bool taken = lane.holder != nullptr && lane.holder->granted();
    if (taken || lane.phase_end <= now) continue;
    const bool traded = phase_left(*lane.owner) <= Nanos(0);
    if (lane.owner == &a || (traded && (lane.robbed == nullptr || lane.robbed->before(c))))
      lane.robbed = &c;
  }
  for (const Lane& lane : lanes_) {
    if (lane.robbed != nullptr) accounts_.block(*lane.robbed->account, lane.phase_end);
  }
}

Time DeadlineArbiter::next_phase(Time now) const {
  Time next = Time::max();
  for (const Candidate& c : choice_.candidates()) {
    const Account& a = *c.account;
    const Lane& lane = lane_of(a);
    if (c.claim <= kOwed && !a.granted()) next = std::min(next, lane.next_begin);
    if (c.claim != kInPhase || !a.granted() || !a.others_wait) continue;
    next = std::min({next, lane.phase_end, now + phase_left(a)});
  }
  return next;
}

}  // namespace sluice::policy
