// The `multi_token` arbiter: FaST-GShare's scheduler exactly as printed (specs/fast-gshare.md, F3),
// as a baseline. It looks at how much each client misses, not at where placement put it, and stops
// at the first that does not fit: it can miss requests that placement accepted (share_test.cc shows
// by how much). Ours alone: overrun is debt against the limit. Not thread-safe.
#pragma once

#include <vector>

#include "policy/share_account.h"

namespace sluice::policy {

class MultiTokenArbiter : public Arbiter {
 public:
  explicit MultiTokenArbiter(const ArbiterConfig& config) : accounts_(config) {}

  // Refuses requests whose areas (sm × request) add up to more than the device.
  Result<void> admit(const ShareClient& client, Time now) override;
  void remove(ClientId id, Time) override { accounts_.remove(id); }
  void want(ClientId id, bool wanting, Time now) override { accounts_.want(id, wanting, now); }
  void charge(ClientId id, Nanos busy, Time seen_until, Time now) override {
    accounts_.charge(id, busy, seen_until, now);
  }
  void drained(ClientId id, Time now) override { accounts_.drained(id, now); }
  Permits step(Time now) override;
  std::string_view name() const override { return "multi_token"; }

 private:
  Accounts accounts_;
  std::vector<Account*> queue_;  // of this step; kept for its memory
};

}  // namespace sluice::policy
