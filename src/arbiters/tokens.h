// The common part of arbiters that issue tokens: an amount of busy time to each client for each
// window, spent in turns, the client with the least used part of its tokens first. The arbiter
// decides what is issued; this class decides which client spends it when. Not thread-safe.
#pragma once

#include "arbiters/choice.h"

namespace sluice::policy {

class TokenArbiter : public AccountedArbiter {
 public:
  // Refuses requests whose areas (sm × request) add up to more than the device. A client without
  // issued tokens has its limit.
  Result<void> admit(const ShareClient& client, Time now) override;

 protected:
  explicit TokenArbiter(const ArbiterConfig& config) : AccountedArbiter(config) {}

  // First in a step. Returns whether another window has begun since the last step.
  bool begin_step(Time now);
  // Issues the client that share of the window, from the current one on.
  void give(Account& account, double share);
  // Last in a step. Decides.
  Permits decide();

 private:
  Choice choice_{accounts_};
  Time window_{};  // the start of the last step's window
};

}  // namespace sluice::policy
