// The `share_fixed_limit` and `share_fixed_request` arbiters: the baselines that Dilu calls MPS-l
// and MPS-r. Each client has a share of its own, its limit or its request, fixed when it is
// admitted, and nobody's permit depends on anybody else: no turns, nothing lent, nothing taken
// back. All run at once.
//
// Under MPS the share is one of SMs, set when the process starts: its slice is then that sm with a
// quota of the whole window, and its permit is parked from its first launch on. Where the device
// cannot be cut in space, the share is one of each window's busy time.
//
// Hence the one invariant that these two do not keep: permits in force may add up to more than the
// device in space, and contention is settled by the device. Not thread-safe.
#pragma once

#include "policy/share_account.h"

namespace sluice::policy {

class FixedArbiter : public AccountedArbiter {
 public:
  enum class Kind { kLimit, kRequest };
  FixedArbiter(Kind kind, const ArbiterConfig& config) : AccountedArbiter(config), kind_(kind) {}

  // Refuses requests whose areas add up to more than the device; limits may (Dilu's γ = 1.5), that
  // is what tells the two kinds apart.
  Result<void> admit(const ShareClient& client, Time now) override;
  Permits step(Time now) override;
  std::string_view name() const override {
    return kind_ == Kind::kLimit ? "share_fixed_limit" : "share_fixed_request";
  }

 private:
  Kind kind_;
};

}  // namespace sluice::policy
