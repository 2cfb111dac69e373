#include "policy/share_planned.h"

#include <algorithm>
#include <string>

namespace sluice::policy {
namespace {

// Among clients of equal claim a holder keeps its turn for a quarter of a window: a compromise
// between fairness and the cost of a hand-over (a drain and a wake-up).
constexpr int kTurnsPerWindow = 4;

// Where not everybody can catch up (a wide client waits for the last of several narrow ones), most
// busy time first would leave small requests behind for ever. Who was denied its own for so many
// windows goes before all others.
constexpr int kMostWindowsDenied = 250;

std::string describe(const ShareClient& c) {
  const auto interval = [](Share begin, Share length) {
    return std::to_string(begin.permille) + " … " + std::to_string((begin + length).permille) +
           " ‰";
  };
  return "client " + std::to_string(c.id) + " (sm " + interval(c.position.sm_begin, c.sm) +
         ", time " + interval(c.position.time_begin, c.quota.request) + ")";
}

bool overlap(Share a_begin, Share a_length, Share b_begin, Share b_length) {
  return a_begin < b_begin + b_length && b_begin < a_begin + a_length && a_length > kNone &&
         b_length > kNone;
}

// What it was robbed of beyond one window's request: so much may disturb the plan, and no more; the
// rest is caught up with in what the plan leaves.
Nanos beyond_plan(const Account& a, Time now) {
  return std::min(a.robbed, a.owed_left(now) - a.request) - a.request;
}

bool share_columns(const ShareClient& a, const ShareClient& b) {
  return overlap(a.position.sm_begin, a.sm, b.position.sm_begin, b.sm);
}

bool overlap(const ShareClient& a, const ShareClient& b) {
  return share_columns(a, b) &&
         overlap(a.position.time_begin, a.quota.request, b.position.time_begin, b.quota.request);
}

}  // namespace

Result<void> PlannedArbiter::admit(const ShareClient& client, Time now) {
  SLUICE_TRY(check_shares(client));
  const Position& at = client.position;
  if (at.sm_begin < kNone || at.sm_begin + client.sm > kWhole || at.time_begin < kNone ||
      at.time_begin + client.quota.request > kWhole) {
    return Error{ErrorKind::kInvalid,
                 "position: " + describe(client) + " does not lie within 0 … 1000 ‰"};
  }
  for (const Account& other : accounts_.all()) {
    if (other.client.id != client.id && overlap(client, other.client)) {
      return Error{ErrorKind::kExhausted,
                   "position: " + describe(client) + " overlaps " + describe(other.client)};
    }
  }
  accounts_.put(client, now);
  return {};
}

Time PlannedArbiter::phase_begin(const Account& a) const {
  return accounts_.window_start() +
         accounts_.config().window * a.client.position.time_begin.permille / 1000;
}

Time PlannedArbiter::phase_end(const Account& a) const {
  const Share end = a.client.position.time_begin + a.client.quota.request;
  return accounts_.window_start() + accounts_.config().window * end.permille / 1000;
}

PlannedArbiter::Claim PlannedArbiter::claim(const Account& a, Time now) const {
  const Nanos owed = a.owed_left(now);
  if (owed < Nanos(0) && somebody_robbed_) return kDebtor;
  if (owed < kLeastGrant) return accounts_.lends() ? kBorrower : kDebtor;
  if (beyond_plan(a, now) >= kLeastGrant) return kRobbed;
  return in_phase(a, now) ? kInPhase : kOwed;
}

// 1. Whoever may run, or holds already, with its place in the order in which room is given.
void PlannedArbiter::rank(Time now) {
  const Nanos turn = accounts_.config().window / kTurnsPerWindow;
  candidates_.clear();
  somebody_robbed_ = std::any_of(accounts_.all().begin(), accounts_.all().end(), [now](auto& a) {
    return a.robbed >= kLeastGrant && a.owed_left(now) >= kLeastGrant && a.eligible(now);
  });
  bool columns_given = false;
  for (Account& a : accounts_.all()) {
    const bool eligible = a.eligible(now);
    if (!eligible || a.granted()) a.denied_since = Time::max();
    if (!eligible && !a.granted()) continue;
    Candidate& c = candidates_.emplace_back();
    c.account = &a;
    c.id = a.client.id;
    c.claim = eligible ? claim(a, now) : kParked;
    c.turn_over = !a.granted() || now - a.held_since >= turn;
    if (c.claim == kRobbed || c.claim == kOwed) c.order = -a.owed_left(now).count();
    if (c.claim <= kOwed && !a.granted()) a.denied_since = std::min(a.denied_since, now);
    if (c.claim == kRobbed && now - kMostWindowsDenied * accounts_.config().window > a.denied_since)
      c.order = a.denied_since.time_since_epoch().count() - INT64_MAX;
    if (c.claim == kBorrower) {
      c.order = (a.limit - a.room_left(now)).count() / a.client.quota.limit.permille;
    }
    columns_given |= c.claim == kRobbed;
  }
  if (columns_given) give_columns_to_robbed();
}

// Of the robbed who overlap in space one goes first; owners in phase give way to it only where they
// overlap. So whoever stands elsewhere keeps to the plan, and these still fit together.
void PlannedArbiter::give_columns_to_robbed() {
  std::sort(candidates_.begin(), candidates_.end(),
            [](const Candidate& a, const Candidate& b) { return a.before(b); });
  for (auto c = candidates_.begin(); c != candidates_.end() && c->claim <= kInPhase; ++c) {
    const bool taken = std::any_of(candidates_.begin(), c, [&](const Candidate& before) {
      return before.claim == kRobbed && share_columns(before.account->client, c->account->client);
    });
    if (taken) c->claim = kOwed;
  }
}

// 2. Fill the device in that order. Room that is still draining counts as free: whoever is chosen
// gets it before anybody else. Of many clients few fit, so the rest is never sorted.
void PlannedArbiter::choose() {
  const auto after = [](const Candidate& a, const Candidate& b) { return b.before(a); };
  chosen_.clear();
  unchosen_ = kWhole;
  auto rest = candidates_.end();
  std::make_heap(candidates_.begin(), rest, after);
  while (rest != candidates_.begin() && unchosen_ > kNone) {
    std::pop_heap(candidates_.begin(), rest--, after);
    const Share sm = rest->account->client.sm;
    if (sm > unchosen_ || rest->claim == kDebtor) continue;
    rest->chosen = true;
    unchosen_ = unchosen_ - sm;
    chosen_.push_back(*rest);
  }
  narrowest_waiting_ = kWhole + kWhole;
  for (const Candidate& c : candidates_) {
    if (c.chosen || c.claim >= kParked) continue;
    narrowest_waiting_ = std::min(narrowest_waiting_, c.account->client.sm);
  }
}

bool PlannedArbiter::contended(const Account& holder) const {
  return narrowest_waiting_ <= unchosen_ + holder.client.sm;
}

// 3. Whoever was not chosen holds nothing from now on, and stands before room that it should have
// while its phase lasts.
void PlannedArbiter::turn_away_unchosen(Time now, Permits& permits) {
  for (const Candidate& c : candidates_) {
    if (c.chosen) continue;
    if (c.account->granted()) accounts_.revoke(*c.account, permits);
    note_denied(c, now);
  }
}

void PlannedArbiter::note_denied(const Candidate& c, Time now) {
  if (c.claim <= kOwed && in_phase(*c.account, now))
    accounts_.block(*c.account, phase_end(*c.account));
}

// 4. Permits for the chosen who fit beside what still drains, and renewals where the budget is not
// what it should be (the window turned, the quota changed, somebody came or went).
void PlannedArbiter::grant_chosen(Time now, Permits& permits) {
  Share held;
  for (const Account& a : accounts_.all()) {
    if (a.holds()) held = held + a.held_sm;
  }
  const Time window_later = accounts_.window_end() + accounts_.config().window;
  for (const Candidate& c : chosen_) {
    Account& a = *c.account;
    const Share beside = a.holds() ? held - a.held_sm : held;
    if (beside + a.client.sm > kWhole) {
      if (!a.granted()) note_denied(c, now);
      continue;
    }
    a.others_wait = contended(a);
    if (c.claim == kParked) continue;
    Nanos budget = accounts_.free_budget(a);
    if (c.claim <= kOwed && a.others_wait) {
      const Nanos claimed = c.claim == kRobbed ? beyond_plan(a, now) : a.owed_left(now);
      budget = std::min(budget, claimed);
    }
    const Nanos left = a.budget_left(now);
    const bool as_wished = a.granted() && a.held_sm == a.client.sm &&
                           a.valid_until >= accounts_.window_end() &&
                           left + kLeastGrant >= budget && left <= budget + kLeastGrant;
    if (as_wished) continue;
    accounts_.grant(a, budget, window_later, permits);
    held = beside + a.held_sm;
  }
}

// 5. When the decision can change with no event: somebody's phase begins or ends, a turn is over,
// or a budget that others wait for is spent.
Time PlannedArbiter::next_step(Time now) const {
  const Nanos turn = accounts_.config().window / kTurnsPerWindow;
  Time next = accounts_.next_change();
  const auto at = [&](Time t) {
    if (t > now) next = std::min(next, t);
  };
  for (const Candidate& c : candidates_) {
    const Account& a = *c.account;
    if (c.claim <= kOwed && !a.granted()) at(phase_begin(a));
    if (!a.granted() || !a.others_wait) continue;
    at(now + std::max(a.soonest(a.budget_left(now)), kLeastGrant));
    if (c.claim == kInPhase) at(phase_end(a));
    if (c.claim != kInPhase) at(a.held_since + turn);
  }
  return next;
}

Permits PlannedArbiter::step(Time now) {
  now = accounts_.advance(now);
  Permits permits;
  for (Account& a : accounts_.all()) accounts_.unblock(a);
  accounts_.withdraw_excess(permits);
  rank(now);
  choose();
  turn_away_unchosen(now, permits);
  grant_chosen(now, permits);
  accounts_.park_idle(permits);
  permits.next = next_step(now);
  return permits;
}

}  // namespace sluice::policy
