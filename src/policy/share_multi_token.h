// The `multi_token` arbiter: FaST-GShare's scheduler exactly as printed (specs/fast-gshare.md, F3),
// as a baseline. It looks at how much each client misses, not at where placement put it, and stops
// at the first that does not fit: it can miss requests that placement accepted (share_test.cc shows
// by how much). Ours alone: overrun is debt against the limit. Not thread-safe.
#pragma once

#include <vector>

#include "policy/share_account.h"

namespace sluice::policy {

class MultiTokenArbiter : public AccountedArbiter {
 public:
  explicit MultiTokenArbiter(const ArbiterConfig& config) : AccountedArbiter(config) {}

  // Refuses requests whose areas (sm × request) add up to more than the device.
  Result<void> admit(const ShareClient& client, Time now) override;
  Permits step(Time now) override;
  std::string_view name() const override { return "multi_token"; }

 private:
  struct Waiting {
    Nanos missing;
    Account* account;
  };

  std::vector<Waiting> queue_;  // of this step; kept for its memory
};

}  // namespace sluice::policy
