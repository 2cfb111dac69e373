// What arbiters have in common that issue tokens: so much busy time to each client for each window,
// spent in turns, least used part of its tokens first. What is issued is their decision; here is
// who spends it when. Not thread-safe.
#pragma once

#include "policy/share_choice.h"

namespace sluice::policy {

class TokenArbiter : public AccountedArbiter {
 public:
  // Refuses requests whose areas (sm × request) add up to more than the device. Until tokens are
  // issued a client has its limit.
  Result<void> admit(const ShareClient& client, Time now) override;

 protected:
  explicit TokenArbiter(const ArbiterConfig& config) : AccountedArbiter(config) {}

  // First in a step: whether another window has begun since the last one.
  bool begin_step(Time now);
  // A share of the window, from this one on.
  void give(Account& account, double share);
  // Last in a step.
  Permits decide();

 private:
  Choice choice_{accounts_};
  Time window_{};  // the start of that of the last step
};

}  // namespace sluice::policy
