#include "arbiters/tokens.h"

#include <algorithm>
#include <utility>

namespace sluice::policy {
namespace {

enum Claim : uint8_t { kWaiting, kParked };

// Returns the used part of the client's tokens, in 1/4096.
int64_t used_part(const Account& a, Time now) {
  return 4096 * (a.limit - a.room_left(now)).count() / std::max<int64_t>(a.limit.count(), 1);
}

}  // namespace

Result<void> TokenArbiter::admit(const ShareClient& client, Time now) {
  SLUICE_TRY(check_shares(client));
  SLUICE_TRY(check_area(accounts_, client));
  accounts_.put(client, now);
  return {};
}

bool TokenArbiter::begin_step(Time now) {
  accounts_.advance(now);
  return std::exchange(window_, accounts_.window_start()) != accounts_.window_start();
}

void TokenArbiter::give(Account& account, double share) {
  accounts_.set_limit(
      account,
      Nanos(static_cast<int64_t>(share * static_cast<double>(accounts_.config().window.count()))));
}

Permits TokenArbiter::decide() {
  const Time now = accounts_.now();
  Permits permits;
  accounts_.withdraw_excess(permits);
  choice_.clear();
  for (Account& a : accounts_.all()) {
    const bool eligible = a.eligible(now) && (a.owed_left(now) >= kLeastGrant || accounts_.lends());
    if (!eligible && !a.granted()) continue;
    Candidate& c = choice_.add(a, eligible ? kWaiting : kParked);
    c.waits = eligible;
    c.order = used_part(a, now);
  }
  choice_.decide(permits);
  accounts_.park_idle(permits);
  permits.next = std::min(accounts_.next_change(), choice_.next_change());
  return permits;
}

}  // namespace sluice::policy
