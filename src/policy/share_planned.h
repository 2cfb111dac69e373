// The `planned` arbiter, ours and the default. Its property: whatever placement accepted
// (rectangles in sm × time that do not overlap), every client that has work throughout a window
// gets its request in it, up to one operator of overrun, which becomes debt; and idle time is lent
// up to the limits.
//
// The plan is the placement itself: while a client's rectangle covers the present phase of the
// window, it may have its room from whoever borrows it. The rectangles that cover one moment do not
// overlap, so they always fit together. What a client is robbed of beyond a window's request
// (operators longer than a window) goes before the plan, in its own columns of the device.
//
// Where it ends: a rectangle as wide as several narrower ones waits for the last of them. With
// operators longer than a window on one of these, the others stand idle meanwhile, and requests
// that fill such a device exactly are missed. In lanes nothing is lost. Not thread-safe.
#pragma once

#include <tuple>
#include <vector>

#include "policy/share_account.h"

namespace sluice::policy {

class PlannedArbiter : public Arbiter {
 public:
  explicit PlannedArbiter(const ArbiterConfig& config) : accounts_(config) {}

  // Refuses a rectangle that overlaps an accepted one, or does not lie within the device.
  Result<void> admit(const ShareClient& client, Time now) override;
  void remove(ClientId id, Time) override { accounts_.remove(id); }
  void want(ClientId id, bool wanting, Time now) override { accounts_.want(id, wanting, now); }
  void charge(ClientId id, Nanos busy, Time seen_until, Time now) override {
    accounts_.charge(id, busy, seen_until, now);
  }
  void drained(ClientId id, Time now) override { accounts_.drained(id, now); }
  Permits step(Time now) override;
  std::string_view name() const override { return "planned"; }

 private:
  // In order of precedence. A debtor must wait: until those who were robbed have caught up, or
  // until the device has something to lend again.
  enum Claim : uint8_t { kRobbed, kInPhase, kOwed, kBorrower, kParked, kDebtor };
  struct Candidate {
    Account* account;
    int64_t order;  // of equal claims the smaller first
    ClientId id;    // of equal orders: a total order
    Claim claim;
    bool turn_over;  // after those of the same claim whose turn is not
    bool chosen;

    bool before(const Candidate& other) const {
      return std::tie(claim, turn_over, order, id) <
             std::tie(other.claim, other.turn_over, other.order, other.id);
    }
  };

  void rank(Time now);
  void give_columns_to_robbed();
  void choose();
  bool contended(const Account& holder) const;
  void turn_away_unchosen(Time now, Permits& permits);
  void note_denied(const Candidate& candidate, Time now);
  void grant_chosen(Time now, Permits& permits);
  Time next_step(Time now) const;

  Time phase_begin(const Account& account) const;
  Time phase_end(const Account& account) const;
  bool in_phase(const Account& account, Time now) const {
    return phase_begin(account) <= now && now < phase_end(account);
  }
  Claim claim(const Account& eligible, Time now) const;

  Accounts accounts_;
  std::vector<Candidate> candidates_;  // of this step, in no order; kept for its memory
  std::vector<Candidate> chosen_;      // those who get the room, in order
  bool somebody_robbed_ = false;
  Share unchosen_;           // left over by those chosen
  Share narrowest_waiting_;  // of those not chosen that have work; above kWhole: none
};

}  // namespace sluice::policy
