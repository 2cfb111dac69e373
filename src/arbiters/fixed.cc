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
  now = accounts_.advance(now);
  Permits permits;
  permits.grant.reserve(accounts_.all().size());
  accounts_.withdraw_excess(permits);
  for (Account& a : accounts_.all()) {
    if (!a.eligible(now)) continue;
    accounts_.renew(a, a.whole ? accounts_.free_budget(a) : a.room_left(now), permits);
  }
  accounts_.park_idle(permits);
  permits.next = accounts_.next_change();
  return permits;
}

}  // namespace sluice::policy
