// The `share_fixed_limit` and `share_fixed_request` arbiters: the baselines that Dilu calls MPS-l
// and MPS-r. Each client has a share of its own, its limit or its request, fixed at admission. No
// client's permit depends on another's: all run at once, without turns, lending or revocation.
//
// Under MPS the share is one of SMs, set when the process starts: its slice is that sm with a quota
// of the whole window, and its permit is parked from its first launch on. Where the device cannot
// be cut in space, the share is one of each window's busy time.
//
// Hence they do not keep one invariant of the other arbiters: permits in force may add up to more
// than the device in space, and the device settles contention. Only a device that is a share of a
// core cannot: beyond their requests, clients share what is left of its window. Not thread-safe.
#pragma once

#include "arbiters/account.h"

namespace sluice::policy {

class FixedArbiter : public AccountedArbiter {
 public:
  enum class Kind { kLimit, kRequest };
  FixedArbiter(Kind kind, const ArbiterConfig& config) : AccountedArbiter(config), kind_(kind) {}

  // Refuses requests whose areas add up to more than the device. Limits may (Dilu's γ = 1.5), which
  // distinguishes the two arbiters.
  Result<void> admit(const ShareClient& client, Time now) override;
  Permits step(Time now) override;
  std::string_view name() const override {
    return kind_ == Kind::kLimit ? "share_fixed_limit" : "share_fixed_request";
  }

 private:
  Kind kind_;
};

}  // namespace sluice::policy
