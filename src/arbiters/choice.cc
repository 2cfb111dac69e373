#include "arbiters/choice.h"

#include <algorithm>

namespace sluice::policy {

void Choice::decide(Permits& permits) {
  fill();
  turn_away(permits);
  grant(permits);
}

// Space that still drains counts as free: a chosen client gets it before any other. Few of many
// clients fit, usually those of the first class, so the others are never sorted.
void Choice::fill() {
  const auto after = [](const Candidate* a, const Candidate* b) { return b->before(*a); };
  for (auto& members : classes_) members.clear();
  for (Candidate& c : candidates_) classes_[c.claim].push_back(&c);
  chosen_.clear();
  unchosen_ = kWhole;
  for (auto& members : classes_) {
    if (unchosen_ == kNone) break;
    std::make_heap(members.begin(), members.end(), after);
    for (auto end = members.end(); end != members.begin() && unchosen_ > kNone;) {
      std::pop_heap(members.begin(), end--, after);
      Candidate& c = **end;
      if (c.barred || c.account->client.sm > unchosen_) continue;
      c.chosen = true;
      unchosen_ = unchosen_ - c.account->client.sm;
      chosen_.push_back(&c);
    }
  }
}

bool Choice::contended(const Account& holder) const {
  return narrowest_waiting_ <= unchosen_ + holder.client.sm;
}

// A holder that was not chosen blocks a chosen client.
void Choice::turn_away(Permits& permits) {
  narrowest_waiting_ = kWhole + kWhole;
  for (const Candidate& c : candidates_) {
    if (c.chosen) continue;
    if (c.waits) narrowest_waiting_ = std::min(narrowest_waiting_, c.account->client.sm);
    if (c.account->granted()) accounts_.revoke(*c.account, permits);
  }
}

// Grants the chosen that fit beside what still drains, and renews permits.
void Choice::grant(Permits& permits) {
  Share held;
  for (const Account& a : accounts_.all()) {
    if (a.holds()) held = held + a.held_sm;
  }
  for (const Candidate* chosen : chosen_) {
    const Candidate& c = *chosen;
    Account& a = *c.account;
    const Share beside = a.holds() ? held - a.held_sm : held;
    if (beside + a.client.sm > kWhole) continue;
    a.others_wait = contended(a);
    if (!c.waits) continue;
    const Nanos most = a.others_wait ? c.budget : Nanos::max();
    accounts_.renew(a, std::min(accounts_.free_budget(a), most), permits);
    held = beside + a.held_sm;
  }
}

Time Choice::next_change() const {
  const Time now = accounts_.now();
  Time next = Time::max();
  for (const Candidate* c : chosen_) {
    const Account& a = *c->account;
    if (!a.granted() || !a.others_wait) continue;
    next = std::min(next, now + std::max(a.soonest(a.budget_left(now)), kLeastGrant));
    if (turn_end(a) > now) next = std::min(next, turn_end(a));
  }
  return next;
}

}  // namespace sluice::policy
