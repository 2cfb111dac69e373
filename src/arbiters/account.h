// What every arbiter keeps about a client: its quota in this window, its debt, its deficit, its
// permit, and the use that the meter has not shown yet. Accounts is the table of them with the
// clock of windows. An AccountedArbiter owns one and decides only which clients hold. Accounts
// decides nothing.
//
// Each account has two buckets of busy time. Both are refilled at each window's end, and are
// negative in debt:
//   room   the budget up to the limit; all use counts.
//   owed   the entitlement up to the request. Use beyond it is borrowed, and free. Overrun (use
//          after the permit's end while others waited) makes it negative: the client that overran
//          pays those that it deprived.
// The rest of a bucket is lost at the window's end, except the client's deficit (`deprived`): the
// time of which others deprived it.
#pragma once

#include <algorithm>
#include <span>
#include <vector>

#include "arbiters/arbiter.h"

namespace sluice::policy {

// Clients check a clock every 50 µs (docs/design/permits.md), so a smaller grant means nothing. An
// amount too small to grant is kept for the next window.
inline constexpr Nanos kLeastGrant = Micros(50);

// Among clients of equal claim a holder keeps its turn for a quarter of a window. That balances
// fairness against the cost of a hand-over (a drain and a wake-up).
inline constexpr int kTurnsPerWindow = 4;

// As std::clamp(), but by value: references would keep values out of registers, and this function
// is most of a decision's cost.
constexpr Nanos within(Nanos value, Nanos least, Nanos most) {
  return std::min(std::max(value, least), most);
}

struct Account {
  enum class Hold { kNone, kGranted, kDraining };

  ShareClient client;
  int pace = 1000;  // of the device
  bool wanting = false;

  Nanos request{0};  // per window
  Nanos limit{0};
  bool whole = false;  // its limit is the whole window, so its use needs no count
  Nanos room{0};
  Nanos owed{0};
  Nanos deprived{0};  // the deficit: the part of `owed` that outlives the window

  Hold hold = Hold::kNone;
  Share held_sm;      // sm of the permit; client.sm is that of the next one
  Nanos budget{0};    // of the current grant
  Nanos used{0};      // under the current grant, as metered
  Time held_since{};  // permits renewed without a gap count as one
  Time granted_at{};  // the current grant
  Time valid_until{};
  Time ended_at{};           // of the last permit, unless granted
  bool others_wait = false;  // for the space it holds: overrun is debt to them

  Time occupied_from{};    // since when it holds its space, or until when that time is counted
  Nanos occupied_busy{0};  // use in that time

  Time seen_until{};        // the meter's last report
  Nanos assumed{0};         // booked as used in this window without a report …
  Time assumed_until{};     // … until then; reports are set off against it
  Nanos assumed_before{0};  // the same, in earlier windows
  Nanos presumed{0};        // the part of both under the current grant

  Time blocked_from{};  // since when it waits for space that it is entitled to; max: it does not
  Time blocked_until{};

  Time starved_since = Time::max();  // since when it has been entitled to time and had no permit

  Time due = Time::max();  // of its oldest waiting request
  Nanos phase_begin{0};    // the part of each window that its rectangle covers: its phase
  Nanos phase_end{0};
  Nanos phase_had{0};  // its use of the plan's phases in this window, in time held
  Time busy_at{};      // used something then, as far as is known

  bool holds() const { return hold != Hold::kNone; }
  bool granted() const { return hold == Hold::kGranted; }

  // Busy time that can pass in `time`, and the least time in which `busy` can pass.
  Nanos busy_in(Nanos time) const { return pace == 1000 ? time : time * pace / 1000; }
  Nanos soonest(Nanos busy) const { return pace == 1000 ? busy : busy * 1000 / pace; }

  // Returns what it may have used and the meter has not shown: it counts as busy since the last
  // report.
  Nanos unseen(Time now) const {
    const Time until = granted() ? now : std::min(now, ended_at);
    if (until <= seen_until) return Nanos(0);  // in most cases the meter has seen it all
    const Time from = std::max(std::max(seen_until, granted_at), assumed_until);
    const Nanos left = std::max(budget - used - presumed, Nanos(0));
    return std::min(busy_in(within(until - from, Nanos(0), left)), left);
  }
  Nanos room_left(Time now) const { return room - unseen(now); }
  Nanos owed_left(Time now) const { return owed - unseen(now); }
  Nanos budget_left(Time now) const { return budget - used - presumed - unseen(now); }

  // Returns whether it may be granted a permit at all.
  bool eligible(Time now) const { return wanting && (whole || room_left(now) >= kLeastGrant); }
};

class Accounts {
 public:
  explicit Accounts(const ArbiterConfig& config) : config_(config) {}

  // Events, as in Arbiter. put() adds or changes a client; a changed quota counts for the current
  // window.
  void put(const ShareClient& client, Time now);
  void remove(ClientId id);
  void want(ClientId id, bool wanting, Time now);
  void charge(ClientId id, Nanos busy, Time seen_until, Time now);
  void drained(ClientId id, Time now);
  void deadline(ClientId id, Time due, Time now);

  // First in every step: moves the clock (never back), ends windows, and ends permits and drains
  // that are over. No client is blocked until the step says so again. Returns now.
  Time advance(Time now);
  // Returns the next moment at which advance() has something to do.
  Time next_change() const;

  // The parts of an arbiter's decision.
  void grant(Account& account, Nanos budget, Time valid_until, Permits& permits);
  // As grant(), unless the permit in force has about that budget left and outlives the window. (The
  // window may have ended, a quota changed, or a client joined or left.)
  void renew(Account& account, Nanos budget, Permits& permits);
  void revoke(Account& account, Permits& permits);
  // First in a decision: revokes permits that a reduced quota no longer covers.
  void withdraw_excess(Permits& permits);
  // Last in a decision: parks the permits of clients without work until another client wants the
  // space.
  void park_idle(Permits& permits);
  // Sets the busy time a window from the current one on, in place of the quota's limit.
  void set_limit(Account& account, Nanos limit);
  // Marks the client as blocked from now until the next step (at most until `until`): it waits for
  // space that it is entitled to.
  void block(Account& account, Time until);

  // Returns whether a client may exceed its request. False once the device is used up for this
  // window, even if the clock has time left: then only requests are kept.
  bool lends() const { return !counts_device() || device_left_ >= kLeastGrant; }

  // Returns the budget of a holder without waiters: what its limit leaves. A limit of the whole
  // window does not end with the window, so that its permit can be renewed in time.
  Nanos free_budget(const Account& account) const;

  std::span<Account> all() { return accounts_; }
  std::span<const Account> all() const { return accounts_; }  // by id
  // Hosts report clients in order, so this is usually the next client, or the same one again.
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
  void end_windows();
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
  void refill(Account& account, int64_t windows);

  ArbiterConfig config_;
  std::vector<Account> accounts_;
  std::vector<ClientId> ids_;  // of accounts_, in the same order: quick to search
  size_t last_found_ = 0;
  Nanos device_left_{0};  // busy time of the whole device left in this window, if it counts
  Time now_{};
  Time window_start_{};
};

// An arbiter that keeps accounts, and hands them its events.
class AccountedArbiter : public Arbiter {
 public:
  // Refuses requests whose areas (sm × request) add up to more than the device.
  Result<void> admit(const ShareClient& client, Time now) override;
  void remove(ClientId id, Time) override { accounts_.remove(id); }
  void want(ClientId id, bool wanting, Time now) override { accounts_.want(id, wanting, now); }
  void charge(ClientId id, Nanos busy, Time seen_until, Time now) override {
    accounts_.charge(id, busy, seen_until, now);
  }
  void drained(ClientId id, Time now) override { accounts_.drained(id, now); }

 protected:
  explicit AccountedArbiter(const ArbiterConfig& config) : accounts_(config) {}

  // A whole decision after accounts_.advance(), where no client's permit excludes another's: every
  // client with work is granted what is left of its limit, and the device settles contention.
  Permits grant_all();

  Accounts accounts_;
};

// Returns kInvalid, with field, value and allowed range, if no device could hold the client.
Result<void> check_shares(const ShareClient& client);

// Returns kExhausted if the requests' areas (sm × request) would add up to more than the device.
Result<void> check_area(const Accounts& accounts, const ShareClient& client);

}  // namespace sluice::policy
