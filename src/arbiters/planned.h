// The `planned` arbiter, ours and the default. It serves any placement of rectangles in sm × time
// that do not overlap. A client with work throughout a window gets its request in it, up to one
// operator of overrun, which becomes debt. Idle time is lent up to the limits, to clients with an
// objective first.
//
// The plan is the placement itself: while a client's rectangle covers the current phase of the
// window, the client may reclaim its space from a borrower. Rectangles that cover one moment do not
// overlap, so they always fit together. A deficit beyond one window's request (from operators
// longer than a window) is paid before the plan, in the client's own columns of the device.
//
// Its bound: a rectangle as wide as several narrower ones waits for the last of them. If one of
// these has operators longer than a window, the others stand idle meanwhile, and requests that fill
// such a device exactly are missed. In lanes nothing is lost. Not thread-safe.
#pragma once

#include "arbiters/choice.h"

namespace sluice::policy {

class PlannedArbiter : public AccountedArbiter {
 public:
  explicit PlannedArbiter(const ArbiterConfig& config) : AccountedArbiter(config) {}

  // Refuses a rectangle that overlaps an accepted one, or does not lie within the device.
  Result<void> admit(const ShareClient& client, Time now) override;
  Permits step(Time now) override;
  std::string_view name() const override { return "planned"; }

 protected:
  // In order of precedence. Borrowers without an objective are in the background. A debtor waits
  // until deprived clients have caught up, or until the device can lend again.
  enum Claim : uint8_t { kRobbed, kInPhase, kOwed, kBorrower, kBackground, kParked, kDebtor };

  Time phase_begin(const Account& a) const { return accounts_.window_start() + a.phase_begin; }
  Time phase_end(const Account& a) const { return accounts_.window_start() + a.phase_end; }
  bool in_phase(const Account& account, Time now) const {
    return phase_begin(account) <= now && now < phase_end(account);
  }

  // Assigns the plan's phases: here each client has its own; `deadline` trades them.
  virtual void trade_phases(Time /*now*/) {}
  // Blocks each client that waits for space that it is entitled to.
  virtual void note_denied(Time now);
  // Returns when the next relevant phase begins or ends.
  virtual Time next_phase(Time now) const;

  Choice choice_{accounts_};

 private:
  void rank(Time now);
  // Makes a client that may run a candidate.
  Candidate& enter(Account& account, Time now);
  Candidate& enter_owed(Account& account, Nanos owed, Time now);
  void give_columns_to_deprived();

  bool somebody_robbed_ = false;
};

}  // namespace sluice::policy
