#include "arbiters/planned.h"

#include <algorithm>
#include <string>

namespace sluice::policy {
namespace {

// If not all clients can catch up (a wide client waits for the last of several narrow ones), most
// busy time first would leave small requests behind for ever. A client that was deprived of its
// entitlement for so many windows comes before all others.
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

// Returns the deficit beyond one window's request: only that much may disturb the plan. The rest is
// paid in what the plan leaves.
Nanos beyond_plan(const Account& a, Nanos owed) {
  return std::min(a.deprived, owed - a.request) - a.request;
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

// Ranks every client that may run or already holds, in the order in which space is given.
void PlannedArbiter::rank(Time now) {
  choice_.clear();
  somebody_robbed_ = std::any_of(accounts_.all().begin(), accounts_.all().end(), [now](auto& a) {
    return a.deprived >= kLeastGrant && a.owed_left(now) >= kLeastGrant && a.eligible(now);
  });
  bool columns_given = false;
  for (Account& a : accounts_.all()) {
    const bool eligible = a.eligible(now);
    if (!eligible || a.granted()) a.starved_since = Time::max();
    if (eligible) {
      columns_given |= enter(a, now).claim == kRobbed;
    } else if (a.granted()) {
      choice_.add(a, kParked).waits = false;
    }
  }
  trade_phases(now);
  if (columns_given) give_columns_to_deprived();
}

Candidate& PlannedArbiter::enter(Account& a, Time now) {
  const Nanos owed = a.owed_left(now);
  if (owed >= kLeastGrant) return enter_owed(a, owed, now);
  if ((owed < Nanos(0) && somebody_robbed_) || !accounts_.lends()) {
    Candidate& debtor = choice_.add(a, kDebtor);
    debtor.waits = false;
    debtor.barred = true;
    return debtor;
  }
  Candidate& borrower = choice_.add(a, a.client.has_slo ? kBorrower : kBackground);
  borrower.order = (a.limit - a.room_left(now)).count() / a.client.quota.limit.permille;
  return borrower;
}

Candidate& PlannedArbiter::enter_owed(Account& a, Nanos owed, Time now) {
  if (!a.granted()) a.starved_since = std::min(a.starved_since, now);
  const Nanos beyond = beyond_plan(a, owed);
  const bool deprived = beyond >= kLeastGrant;
  Candidate& c = choice_.add(a, deprived ? kRobbed : in_phase(a, now) ? kInPhase : kOwed);
  c.budget = deprived ? beyond : owed;
  if (c.claim != kInPhase) c.order = -owed.count();
  if (deprived && now - kMostWindowsDenied * accounts_.config().window > a.starved_since)
    c.order = a.starved_since.time_since_epoch().count() - INT64_MAX;
  return c;
}

// Of deprived clients that overlap in space one goes first. Owners in phase give way to it only
// where they overlap it, so all others keep to the plan, and the chosen still fit together.
void PlannedArbiter::give_columns_to_deprived() {
  std::vector<Candidate*> claimants;
  for (Candidate& c : choice_.candidates()) {
    if (c.claim <= kInPhase) claimants.push_back(&c);
  }
  std::sort(claimants.begin(), claimants.end(), [](const Candidate* a, const Candidate* b) {
    return a->claim != b->claim ? a->claim < b->claim : a->before(*b);
  });
  for (auto at = claimants.begin(); at != claimants.end(); ++at) {
    Candidate& c = **at;
    const bool taken = std::any_of(claimants.begin(), at, [&](const Candidate* before) {
      return before->claim == kRobbed && share_columns(before->account->client, c.account->client);
    });
    if (!taken) continue;
    c.claim = kOwed;
    c.budget = c.account->owed_left(accounts_.now());
  }
}

// A client that is entitled to time and holds nothing waits for its space while its phase lasts.
void PlannedArbiter::note_denied(Time now) {
  for (const Candidate& c : choice_.candidates()) {
    Account& a = *c.account;
    if (c.claim <= kOwed && !a.granted() && in_phase(a, now)) accounts_.block(a, phase_end(a));
  }
}

Time PlannedArbiter::next_phase(Time now) const {
  Time next = Time::max();
  const auto at = [&](Time t) {
    if (t > now) next = std::min(next, t);
  };
  for (const Candidate& c : choice_.candidates()) {
    const Account& a = *c.account;
    if (c.claim <= kOwed && !a.granted()) at(phase_begin(a));
    if (c.claim == kInPhase && a.granted() && a.others_wait) at(phase_end(a));
  }
  return next;
}

Permits PlannedArbiter::step(Time now) {
  now = accounts_.advance(now);
  Permits permits;
  accounts_.withdraw_excess(permits);
  rank(now);
  choice_.decide(permits);
  note_denied(now);
  accounts_.park_idle(permits);
  permits.next = std::min({accounts_.next_change(), choice_.next_change(), next_phase(now)});
  return permits;
}

}  // namespace sluice::policy
