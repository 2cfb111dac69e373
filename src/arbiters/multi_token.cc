#include "arbiters/multi_token.h"

#include <algorithm>

namespace sluice::policy {
namespace {

// Q_miss = Q_request − Q_used; debt counts as used.
Nanos missing(const Account& a, Time now) {
  return a.request - std::max(a.limit - a.room_left(now), Nanos(0));
}

}  // namespace

Permits MultiTokenArbiter::step(Time now) {
  now = accounts_.advance(now);
  Permits permits;
  accounts_.withdraw_excess(permits);
  Share running;
  bool idle_holder = false;
  queue_.clear();
  for (Account& a : accounts_.all()) {
    if (a.granted()) {
      running = running + a.held_sm;
      idle_holder |= !a.wanting;
    } else {
      // (1) Filter: Q_remain = Q_limit − Q_used; a client without any waits for the next window.
      if (a.eligible(now) && (a.owed_left(now) >= kLeastGrant || accounts_.lends()))
        queue_.push_back({missing(a, now), &a});
      if (a.holds()) running = running + a.held_sm;
    }
  }
  // (2) Queue: largest Q_miss first; of equals the first by id, the accounts' order.
  std::sort(queue_.begin(), queue_.end(), [](const Waiting& a, const Waiting& b) {
    return a.missing != b.missing ? a.missing > b.missing : a.account < b.account;
  });
  // (3) Dispatch to the head while it fits, and stop there.
  for (const Waiting& head : queue_) {
    Account* a = head.account;
    const Share beside = a->holds() ? running - a->held_sm : running;
    if (beside + a->client.sm > kWhole) {
      // Tokens of clients without work go back first.
      if (!idle_holder) break;
      for (Account& b : accounts_.all()) {
        if (b.granted() && !b.wanting) accounts_.revoke(b, permits);
      }
      break;
    }
    // A token is the request's share of the window; without a request, of a limit.
    const Nanos token = std::max(a->request > Nanos(0) ? a->request : a->limit, kLeastGrant);
    accounts_.grant(*a, std::min(token, accounts_.free_budget(*a)),
                    now + 2 * accounts_.config().window, permits);
    a->others_wait = true;
    running = beside + a->held_sm;
  }
  accounts_.park_idle(permits);
  permits.next = accounts_.next_change();
  return permits;
}

}  // namespace sluice::policy
