// The `multi_token` arbiter: FaST-GShare's multi-token scheduler exactly as printed (ICPP '23), as
// a baseline. It orders clients by how much of their request they miss, regardless of their
// placement, and stops at the first that does not fit. It can therefore miss requests that
// placement accepted (packing_test.cc shows by how much). One part is ours: overrun is debt against
// the limit. Not thread-safe.
#pragma once

#include <vector>

#include "arbiters/account.h"

namespace sluice::policy {

class MultiTokenArbiter : public AccountedArbiter {
 public:
  explicit MultiTokenArbiter(const ArbiterConfig& config) : AccountedArbiter(config) {}

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
