#include "arbiters/account.h"

#include <algorithm>
#include <string>
#include <utility>

namespace sluice::policy {

Account* Accounts::search(ClientId id) {
  const auto at = std::lower_bound(ids_.begin(), ids_.end(), id);
  if (at == ids_.end() || *at != id) return nullptr;
  return &accounts_[last_found_ = at - ids_.begin()];
}

void Accounts::put(const ShareClient& client, Time now) {
  now = tick(now);
  const auto at = std::lower_bound(ids_.begin(), ids_.end(), client.id);
  const auto place = accounts_.begin() + (at - ids_.begin());
  const bool is_new = at == ids_.end() || *at != client.id;
  Account& account = is_new ? *accounts_.emplace(place) : *place;
  if (is_new) {
    ids_.insert(at, client.id);
    account.blocked_from = Time::max();
  }
  account.pace = config_.pace;

  const Nanos request = config_.window * client.quota.request.permille / 1000;
  account.owed = moved(account, account.owed, request - account.request);
  account.request = request;
  set_limit(account, config_.window * client.quota.limit.permille / 1000);
  const Share begin = client.position.time_begin;
  account.phase_begin = config_.window * begin.permille / 1000;
  account.phase_end = config_.window * (begin + client.quota.request).permille / 1000;
  account.client = client;
}

void Accounts::set_limit(Account& account, Nanos limit) {
  account.room = moved(account, account.room, limit - account.limit);
  account.limit = limit;
  account.whole = limit >= config_.window && config_.pace <= 1000;
}

// Returns a bucket after a changed quota. A smaller quota takes away what is left of the window,
// but makes no debt of what was allowed.
Nanos Accounts::moved(const Account& account, Nanos bucket, Nanos by) const {
  const Nanos unseen = account.unseen(now_);
  const Nanos left = bucket - unseen;
  return std::max(left + by, std::min(left, Nanos(0))) + unseen;
}

void Accounts::remove(ClientId id) {
  std::erase_if(accounts_, [id](const Account& a) { return a.client.id == id; });
  std::erase(ids_, id);
}

void Accounts::want(ClientId id, bool wanting, Time now) {
  now = tick(now);
  Account* account = find(id);
  if (account == nullptr) return;
  account->wanting = wanting;
  if (wanting) return;
  settle_blocked(*account, now);
  unblock(*account);
}

void Accounts::charge(ClientId id, Nanos busy, Time seen_until, Time now) {
  now = tick(now);
  Account* account = find(id);
  if (account == nullptr) return;
  Account& a = *account;
  seen_until = std::min(seen_until, now);
  if (a.holds()) expire(a);
  if (busy > Nanos(0) || a.holds() ||
      a.assumed + a.assumed_before > Nanos(0))  // usually nothing is to be booked
    book(a, std::max(busy, Nanos(0)), seen_until);
  a.seen_until = std::max(a.seen_until, seen_until);
}

// Books a report: its part after the permit's end is overrun. If it spans a window's end, as much
// as can lie behind that end does.
void Accounts::book(Account& a, Nanos busy, Time seen_until) {
  // The part of `busy` that may lie after a moment: at most what fits in the time since. A report
  // begins where the last one ended, unless it is out of order.
  const Time begin = seen_until > a.seen_until ? a.seen_until : Time{};
  const auto after = [&](Time moment) {
    const Nanos since = within(seen_until - std::max(begin, moment), Nanos(0), busy);
    return std::min(a.busy_in(since), busy);
  };
  Nanos overrun{0};
  if (a.hold == Account::Hold::kDraining) overrun = after(a.ended_at);
  if (a.granted()) {
    a.used += after(a.granted_at);
    if (a.used >= a.budget) {
      overrun = a.used - a.budget;
      end_permit(a, seen_until);
    }
  }

  set_off(a, busy, busy - after(window_start_), seen_until, overrun);
}

// Sets a report off against assumed use, on each side of the window's end. Use assumed before that
// end is never set off against use after it. A client that was kept from its permit until the end,
// and whose host comes late, has thus spent that much of the new window.
void Accounts::set_off(Account& a, Nanos busy, Nanos before, Time seen_until, Nanos overrun) {
  const Nanos here = busy - before;
  const Nanos there =
      seen_until >= window_start_ ? a.assumed_before : std::min(a.assumed_before, before);
  const Nanos then = seen_until >= a.assumed_until ? a.assumed : std::min(a.assumed, here);
  if (before < there) give_back(a, there - before);
  a.assumed_before -= there;
  a.assumed -= then;
  a.presumed =
      std::min(std::max(a.presumed - there - then, Nanos(0)), a.assumed_before + a.assumed);
  use(a, std::max(before - there, Nanos(0)) + here - then, overrun);
}

// Takes back use that was assumed of earlier windows and did not happen. It is lost, except for
// what outlives a window. Use assumed of this window stays booked.
void Accounts::give_back(Account& a, Nanos busy) {
  const Nanos kept = kLeastGrant + a.deprived - a.assumed;
  a.occupied_busy -= busy;
  if (counts_device()) device_left_ += busy * a.client.sm.permille / 1000;
  a.room = std::max(a.room, std::min(a.room + busy, a.limit + kept));
  a.owed = std::max(a.owed, std::min(a.owed + busy, a.request + kept));
}

void Accounts::drained(ClientId id, Time now) {
  now = tick(now);
  Account* account = find(id);
  if (account == nullptr) return;
  expire(*account);
  if (account->granted()) end_permit(*account, now);
  leave(*account, now);
}

void Accounts::deadline(ClientId id, Time due, Time now) {
  tick(now);
  if (Account* account = find(id)) account->due = due;
}

// Books use. `net` is negative where an assumption is taken back.
void Accounts::use(Account& a, Nanos net, Nanos overrun) {
  const Nanos max_debt = config_.drain_bound;
  a.occupied_busy += net;
  if (counts_device()) device_left_ -= net * a.client.sm.permille / 1000;
  a.room = within(a.room - net, -max_debt, a.limit + kLeastGrant + a.deprived);
  if (net < Nanos(0)) {
    a.owed = std::min(a.owed - net, a.request + kLeastGrant + a.deprived);
    return;
  }
  if (net == Nanos(0) && overrun == Nanos(0) && a.owed >= Nanos(0)) return;  // all was assumed
  if (net > Nanos(0)) a.busy_at = now_;
  overrun = a.others_wait ? std::min(overrun, net) : Nanos(0);
  if (a.owed > Nanos(0)) a.owed = std::max(a.owed - (net - overrun), Nanos(0));
  // Debt is paid from the request; a client without one pays by coming last.
  a.owed = std::max(a.owed - overrun, a.request > Nanos(0) ? -max_debt : Nanos(0));
}

// Books use that the meter has not shown, before the grant or window that it belongs to ends.
void Accounts::assume(Account& a, Time until) {
  const Nanos unseen = a.unseen(until);
  if (unseen <= Nanos(0)) return;
  a.assumed += unseen;
  a.presumed += unseen;
  a.assumed_until = a.granted() ? until : std::min(until, a.ended_at);
  use(a, unseen, Nanos(0));
}

void Accounts::end_permit(Account& a, Time at) {
  a.hold = Account::Hold::kDraining;
  a.ended_at = at;
}

// How long it held its space matters only for its deficit.
void Accounts::leave(Account& a, Time at) {
  if (a.deprived > Nanos(0)) settle_occupied(a, at);
  a.hold = Account::Hold::kNone;
}

// Idle time in its space pays a client's deficit, used or not. Otherwise the deficit of a client
// that wants and never works would grow, and put it first for ever.
void Accounts::settle_occupied(Account& a, Time until) {
  if (!a.granted()) until = std::min(until, a.seen_until);  // an operator may run on, unseen
  if (!a.holds() || until <= a.occupied_from) return;
  const Nanos unseen = a.unseen(until);
  if (a.deprived > Nanos(0)) {
    const Nanos idle = until - a.occupied_from - a.soonest(a.occupied_busy + unseen);
    a.deprived = std::max(a.deprived - std::max(idle, Nanos(0)), Nanos(0));
  }
  a.occupied_from = until;
  a.occupied_busy = -unseen;  // to be booked later, if it was used
}

void Accounts::settle_blocked(Account& a, Time until) {
  if (a.blocked_from == Time::max()) return;
  a.deprived += std::max(std::min(until, a.blocked_until) - a.blocked_from, Nanos(0));
  a.blocked_from = std::max(a.blocked_from, until);
}

void Accounts::refill(Account& a, int64_t windows) {
  a.phase_had = Nanos(0);
  if (!a.wanting) a.deprived = Nanos(0);
  a.deprived = within(a.deprived, Nanos(0), within(a.owed, Nanos(0), config_.drain_bound));
  const Nanos kept = a.deprived + kLeastGrant;
  a.room = std::min(a.room + (windows - 1) * a.limit, kept) + a.limit;
  a.owed = std::min(a.owed + (windows - 1) * a.request, kept) + a.request;
}

// For most clients it is enough that use booked by now lies in the window that has ended.
void Accounts::close_window(Account& a) {
  const bool deprived_of_nothing = a.deprived == Nanos(0) && a.granted();
  if (!deprived_of_nothing) settle_occupied(a, window_start_);
  assume(a, window_start_);
  a.assumed_before += std::exchange(a.assumed, Nanos(0));
  if (!deprived_of_nothing) return;
  a.occupied_from = window_start_;
  a.occupied_busy = Nanos(0);
}

Time Accounts::tick(Time now) {
  if (now <= now_) return now_;
  now_ = now;
  if (now_ >= window_end()) end_windows();
  return now_;
}

void Accounts::end_windows() {
  const int64_t windows = (now_ - window_start_) / config_.window;
  window_start_ += windows * config_.window;
  device_left_ = std::min(device_left_ + (windows - 1) * config_.window, Nanos(0)) + config_.window;
  for (Account& a : accounts_) {
    settle_blocked(a, window_start_);
    close_window(a);
    refill(a, windows);
  }
}

void Accounts::expire(Account& a) {
  if (a.granted() && a.valid_until <= now_) end_permit(a, a.valid_until);
  const bool draining = a.hold == Account::Hold::kDraining;
  if (draining && a.ended_at + config_.drain_bound <= now_) leave(a, now_);
}

Time Accounts::advance(Time now) {
  tick(now);
  for (Account& a : accounts_) {
    expire(a);
    settle_blocked(a, now_);
    unblock(a);
  }
  return now_;
}

Time Accounts::next_change() const {
  Time next = Time::max();
  bool window_matters = false;
  for (const Account& a : accounts_) {
    window_matters |= a.wanting || (a.granted() && a.valid_until < Time::max());
    if (a.hold == Account::Hold::kDraining) next = std::min(next, a.ended_at + config_.drain_bound);
  }
  return window_matters ? std::min(next, window_end()) : next;
}

void Accounts::grant(Account& a, Nanos budget, Time valid_until, Permits& permits) {
  assume(a, now_);
  if (!a.granted()) a.held_since = now_;
  if (!a.holds()) {
    a.occupied_from = now_;
    a.occupied_busy = Nanos(0);
  }
  a.hold = Account::Hold::kGranted;
  a.held_sm = a.client.sm;
  a.budget = budget;
  a.used = Nanos(0);
  a.presumed = Nanos(0);
  a.granted_at = now_;
  a.valid_until = valid_until;
  unblock(a);
  permits.grant.push_back({a.client.id, budget, valid_until});
}

void Accounts::renew(Account& a, Nanos budget, Permits& permits) {
  if (a.granted() && a.held_sm == a.client.sm && a.valid_until >= window_end()) {
    const Nanos left = a.budget_left(now_);
    if (left + kLeastGrant >= budget && left <= budget + kLeastGrant) return;
  }
  grant(a, budget, window_end() + config_.window, permits);
}

void Accounts::revoke(Account& a, Permits& permits) {
  end_permit(a, now_);
  a.others_wait = true;
  permits.revoke.push_back(a.client.id);
}

void Accounts::withdraw_excess(Permits& permits) {
  for (Account& a : accounts_) {
    if (!a.granted() || a.whole || a.eligible(now_)) continue;
    const Nanos covered = std::max(a.room_left(now_), Nanos(0)) + kLeastGrant;
    if (a.budget_left(now_) > covered) revoke(a, permits);
  }
}

// Not before the window's end: until then its permit will do, and work may come back.
void Accounts::park_idle(Permits& permits) {
  for (Account& a : accounts_) {
    if (a.wanting || !a.granted() || a.valid_until > window_end()) continue;
    grant(a, free_budget(a), Time::max(), permits);
  }
}

void Accounts::block(Account& a, Time until) {
  a.blocked_from = now_;
  a.blocked_until = until;
}

Nanos Accounts::free_budget(const Account& a) const {
  if (a.whole) return window_end() + config_.window - now_;
  if (!counts_device()) return a.room_left(now_);
  return std::min(a.room_left(now_), std::max(a.owed_left(now_), device_left_));
}

Result<void> AccountedArbiter::admit(const ShareClient& client, Time now) {
  SLUICE_TRY(check_shares(client));
  SLUICE_TRY(check_area(accounts_, client));
  accounts_.put(client, now);
  return {};
}

Permits AccountedArbiter::grant_all() {
  const Time now = accounts_.now();
  Permits permits;
  permits.grant.reserve(accounts_.all().size());
  accounts_.withdraw_excess(permits);
  for (Account& a : accounts_.all()) {
    if (a.eligible(now) && (a.owed_left(now) >= kLeastGrant || accounts_.lends()))
      accounts_.renew(a, accounts_.free_budget(a), permits);
  }
  accounts_.park_idle(permits);
  permits.next = accounts_.next_change();
  return permits;
}

Result<void> check_shares(const ShareClient& client) {
  const auto refuse = [&](const char* field, Share value, const std::string& allowed) {
    return Error{ErrorKind::kInvalid, "client " + std::to_string(client.id) + ": " + field + ": " +
                                          std::to_string(value.permille) + " ‰ is not " + allowed};
  };
  const auto [request, limit] = client.quota;
  if (client.sm <= kNone || client.sm > kWhole) return refuse("sm", client.sm, "within 1 … 1000 ‰");
  if (limit <= kNone || limit > kWhole) return refuse("limit", limit, "within 1 … 1000 ‰");
  if (request < kNone || request > limit) {
    return refuse("request", request,
                  "within 0 … its limit of " + std::to_string(limit.permille) + " ‰");
  }
  return {};
}

Result<void> check_area(const Accounts& accounts, const ShareClient& client) {
  constexpr int64_t kDevice = 1'000'000;
  const auto area_of = [](const ShareClient& c) {
    return int64_t{c.sm.permille} * c.quota.request.permille;
  };
  int64_t area = area_of(client);
  for (const Account& a : accounts.all()) {
    if (a.client.id != client.id) area += area_of(a.client);
  }
  if (area <= kDevice) return {};
  return Error{ErrorKind::kExhausted, "client " + std::to_string(client.id) + ": sm " +
                                          std::to_string(client.sm.permille) + " ‰ × request " +
                                          std::to_string(client.quota.request.permille) +
                                          " ‰: the areas would add up to " +
                                          std::to_string(area / 1000) + " of 1000 ‰"};
}

}  // namespace sluice::policy
