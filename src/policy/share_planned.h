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

#include "policy/share_choice.h"

namespace sluice::policy {

class PlannedArbiter : public AccountedArbiter {
 public:
  explicit PlannedArbiter(const ArbiterConfig& config) : AccountedArbiter(config) {}

  // Refuses a rectangle that overlaps an accepted one, or does not lie within the device.
  Result<void> admit(const ShareClient& client, Time now) override;
  Permits step(Time now) override;
  std::string_view name() const override { return "planned"; }

 protected:
  // In order of precedence. A debtor must wait: until those who were robbed have caught up, or
  // until the device has something to lend again.
  enum Claim : uint8_t { kRobbed, kInPhase, kOwed, kBorrower, kParked, kDebtor };

  Time phase_begin(const Account& a) const { return accounts_.window_start() + a.phase_begin; }
  Time phase_end(const Account& a) const { return accounts_.window_start() + a.phase_end; }
  bool in_phase(const Account& account, Time now) const {
    return phase_begin(account) <= now && now < phase_end(account);
  }

  // Who makes what of the plan's phases: here each client has its own, `deadline` trades them.
  virtual void trade_phases(Time /*now*/) {}
  // Blocks whoever stands before room that it should have.
  virtual void note_denied(Time now);
  // When the next phase that matters to somebody begins or ends.
  virtual Time next_phase(Time now) const;

  Choice choice_{accounts_};

 private:
  void rank(Time now);
  // Make somebody who may run a candidate.
  Candidate& enter(Account& account, Time now);
  Candidate& enter_owed(Account& account, Nanos owed, Time now);
  void give_columns_to_robbed();

  bool somebody_robbed_ = false;
};

}  // namespace sluice::policy
