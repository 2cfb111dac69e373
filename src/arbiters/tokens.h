// The common part of arbiters that issue tokens: an amount of busy time to each client for each
// window, in place of its quota's limit. Not thread-safe.
#pragma once

#include "arbiters/account.h"

namespace sluice::policy {

class TokenArbiter : public AccountedArbiter {
 protected:
  explicit TokenArbiter(const ArbiterConfig& config) : AccountedArbiter(config) {}

  // First in a step. Returns whether another window has begun since the last step.
  bool begin_step(Time now);
  // Issues the client that share of the window, from the current one on. A client without issued
  // tokens has its limit.
  void give(Account& account, double share);

 private:
  Time window_{};  // the start of the last step's window
};

}  // namespace sluice::policy
