#include "arbiters/fixed.h"

#include <string>

namespace sluice::policy {

Result<void> FixedArbiter::admit(const ShareClient& client, Time now) {
  SLUICE_TRY(check_shares(client));
  SLUICE_TRY(check_area(accounts_, client));
  ShareClient held_to = client;
  if (kind_ == Kind::kRequest) {
    if (client.quota.request == kNone)
      return Error{ErrorKind::kInvalid, "client " + std::to_string(client.id) +
                                            ": request: 0 ‰ is all that it would ever get"};
    held_to.quota.limit = client.quota.request;
  }
  accounts_.put(held_to, now);
  return {};
}

Permits FixedArbiter::step(Time now) {
  accounts_.advance(now);
  return grant_all();
}

}  // namespace sluice::policy
