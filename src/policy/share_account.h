// What every arbiter keeps about a client: its quota in this window, debt, what others robbed it
// of, its permit, and what the meter has not shown yet. Accounts is the table of them with the
// clock of windows; an AccountedArbiter owns one and only decides who holds. Plain bookkeeping, no
// decisions.
//
// Two buckets of busy time, refilled at each turn of the window, negative in debt:
//   room   up to the limit; all use counts.
//   owed   up to the request; use beyond it is borrowed and free, but overrun (use after the
//   permit's
//          end while others waited) goes below zero: who overran pays whom it robbed.
// What is left in a bucket is lost at the turn, except what the client was robbed of.
#pragma once

#include <algorithm>
#include <span>
#include <vector>

#include "policy/share.h"

namespace sluice::policy {

// Clients look at a clock every 50 µs (docs/design/permits.md): smaller grants mean nothing, and
// what is too small to grant is kept for the next window.
inline constexpr Nanos kLeastGrant = Micros(50);

// Among clients of equal claim a holder keeps its turn for a quarter of a window: a compromise
// between fairness and the cost of a hand-over (a drain and a wake-up).
inline constexpr int kTurnsPerWindow = 4;

// As std::clamp(), by value: through references nothing stays in registers, and this is the most of
// what a decision does.
constexpr Nanos within(Nanos value, Nanos least, Nanos most) {
  return std::min(std::max(value, least), most);
}

struct Account {
  enum class Hold { kNone, kGranted, kDraining };

  ShareClient client;
  int pace = 1000;  // the device's
  bool wanting = false;

  Nanos request{0};  // per window
  Nanos limit{0};
  bool whole = false;  // its limit is the whole window: it cannot use more, and needs no count
  Nanos room{0};
  Nanos owed{0};
  Nanos robbed{0};  // the part of `owed` that outlives the window

  Hold hold = Hold::kNone;
  Share held_sm;      // sm of the permit; client.sm is that of the next one
  Nanos budget{0};    // of the present grant
  Nanos used{0};      // under the present grant, as the meter has shown
  Time held_since{};  // permits renewed without a gap count as one
  Time granted_at{};  // the present grant
  Time valid_until{};
  Time ended_at{};           // of the last permit, unless granted
  bool others_wait = false;  // for the room it holds: overrun is debt to them

  Time occupied_from{};    // holds the room since, or counted below until
  Nanos occupied_busy{0};  // of that time, used

  Time seen_until{};        // the meter's last report
  Nanos assumed{0};         // booked as used in this window without a report …
  Time assumed_until{};     // … up to here; reports are set off against it
  Nanos assumed_before{0};  // the same, in earlier windows
  Nanos presumed{0};        // the part of both that lies under the present grant

  Time blocked_from{};  // since when it stands before room that it should have; max: it does not
  Time blocked_until{};

  Time denied_since = Time::max();  // what it is owed, without a permit

  Time due = Time::max();  // of its oldest waiting request
  Nanos phase_begin{0};    // the part of each window that its rectangle covers: its phase
  Nanos phase_end{0};
  Nanos phase_had{0};  // of the plan's phases, in this window, used or not
  Time busy_at{};      // used something then, as far as is known

  bool holds() const { return hold != Hold::kNone; }
  bool granted() const { return hold == Hold::kGranted; }

  // Busy time that may pass in a time, and the time in which so much may pass at the earliest.
  Nanos busy_in(Nanos time) const { return pace == 1000 ? time : time * pace / 1000; }
  Nanos soonest(Nanos busy) const { return pace == 1000 ? busy : busy * 1000 / pace; }

  // What it may have used and the meter has not shown: it is taken for busy ever since.
  Nanos unseen(Time now) const {
    const Time until = granted() ? now : std::min(now, ended_at);
    if (until <= seen_until) return Nanos(0);  // as a rule the meter has seen it all
    const Time from = std::max(std::max(seen_until, granted_at), assumed_until);
    const Nanos left = std::max(budget - used - presumed, Nanos(0));
    return std::min(busy_in(within(until - from, Nanos(0), left)), left);
  }
  Nanos room_left(Time now) const { return room - unseen(now); }
  Nanos owed_left(Time now) const { return owed - unseen(now); }
  Nanos budget_left(Time now) const { return budget - used - presumed - unseen(now); }

  // May be given a permit at all.
  bool eligible(Time now) const { return wanting && (whole || room_left(now) >= kLeastGrant); }
};

class Accounts {
 public:
  explicit Accounts(const ArbiterConfig& config) : config_(config) {}

  // Events, as in Arbiter. put() adds or changes; a changed quota counts for this very window.
  void put(const ShareClient& client, Time now);
  void remove(ClientId id);
  void want(ClientId id, bool wanting, Time now);
  void charge(ClientId id, Nanos busy, Time seen_until, Time now);
  void drained(ClientId id, Time now);
  void deadline(ClientId id, Time due, Time now);

  // First in every step: moves the clock (never back), turns windows, ends permits and drains that
  // are over; nobody is blocked until the step says so again. Returns now.
  Time advance(Time now);
  // The next moment at which advance() has something to do.
  Time next_change() const;

  // What an arbiter's decision consists of.
  void grant(Account& account, Nanos budget, Time valid_until, Permits& permits);
  // The same, unless the permit in force is about as wished: it has that budget left and outlives
  // the window (which turned, or a quota changed, or somebody came or went).
  void renew(Account& account, Nanos budget, Permits& permits);
  void revoke(Account& account, Permits& permits);
  // Takes back permits that a quota made smaller no longer covers: first in a decision.
  void withdraw_excess(Permits& permits);
  // Leaves the permits of clients that have no work with them until somebody wants the room: last.
  void park_idle(Permits& permits);
  // So much busy time a window, from this one on, in place of the quota's limit.
  void set_limit(Account& account, Nanos limit);
  // From now until the next step (at most until `until`) the client stands before room that it
  // should have.
  void block(Account& account, Time until);

  // Whether anybody may go on beyond its request. Not when the device is used up for this window,
  // though the clock has room for more: then requests alone are kept.
  bool lends() const { return !counts_device() || device_left_ >= kLeastGrant; }

  // The budget for whom nobody waits: what its limit leaves. A limit of the whole ends with no
  // window, so that its permit can be renewed in time.
  Nanos free_budget(const Account& account) const;

  std::span<Account> all() { return accounts_; }
  std::span<const Account> all() const { return accounts_; }  // by id
  // Hosts tell of their clients in order: of the next one, as a rule, or again of the same.
  Account* find(ClientId id) {
    const auto is_at = [&](size_t place) { return place < ids_.size() && ids_[place] == id; };
    if (is_at(last_found_ + 1)) return &accounts_[++last_found_];
    if (is_at(last_found_)) return &accounts_[last_found_];
    return search(id);
  }
  Time now() const { return now_; }
  Time window_start() const { return window_start_; }
  Time window_end() const { return window_start_ + config_.window; }
  const ArbiterConfig& config() const { return config_; }

 private:
  Account* search(ClientId id);
  Time tick(Time now);
  void turn_windows();
  Nanos moved(const Account& account, Nanos bucket, Nanos by) const;
  // A device that cannot be used faster than its clock runs needs no count of its own.
  bool counts_device() const { return config_.pace > 1000; }
  void expire(Account& account);
  void book(Account& account, Nanos busy, Time seen_until);
  void give_back(Account& account, Nanos busy);
  void set_off(Account& account, Nanos busy, Nanos before, Time seen_until, Nanos overrun);
  void use(Account& account, Nanos net, Nanos overrun);
  void assume(Account& account, Time until);
  void end_permit(Account& account, Time at);
  void unblock(Account& account) { account.blocked_from = Time::max(); }
  void settle_blocked(Account& account, Time until);
  void settle_occupied(Account& account, Time until);
  void leave(Account& account, Time at);
  void close_window(Account& account);
  void turn(Account& account, int64_t windows);

  ArbiterConfig config_;
  std::vector<Account> accounts_;
  std::vector<ClientId> ids_;  // of accounts_, sorted as they are: quick to search
  size_t last_found_ = 0;
  Nanos device_left_{0};  // of this window, in busy time of the whole device, if it counts
  Time now_{};
  Time window_start_{};
};

// An arbiter that keeps accounts: the events go to them.
class AccountedArbiter : public Arbiter {
 public:
  void remove(ClientId id, Time) override { accounts_.remove(id); }
  void want(ClientId id, bool wanting, Time now) override { accounts_.want(id, wanting, now); }
  void charge(ClientId id, Nanos busy, Time seen_until, Time now) override {
    accounts_.charge(id, busy, seen_until, now);
  }
  void drained(ClientId id, Time now) override { accounts_.drained(id, now); }

 protected:
  explicit AccountedArbiter(const ArbiterConfig& config) : accounts_(config) {}

  Accounts accounts_;
};

// kInvalid, with field, value and what is allowed, where no device could hold the client.
Result<void> check_shares(const ShareClient& client);

// kExhausted where requests (sm × request) would add up to more than the device.
Result<void> check_area(const Accounts& accounts, const ShareClient& client);

}  // namespace sluice::policy
