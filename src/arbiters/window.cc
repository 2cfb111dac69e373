#include "arbiters/window.h"

#include <algorithm>
#include <numeric>
#include <string>
#include <tuple>

namespace sluice::policy {
namespace {

std::string permille(Share s) {
  return std::to_string(s.permille) + " ‰";
}

Error refuse(const ShareClient& c, const std::string& why) {
  return {ErrorKind::kExhausted, "client " + std::to_string(c.id) + ": lane at " +
                                     permille(c.position.sm_begin) + ", sm " + permille(c.sm) +
                                     ": " + why};
}

}  // namespace

Result<void> WindowArbiter::admit(const ShareClient& client, Time now) {
  SLUICE_TRY(check_shares(client));
  const Share begin = client.position.sm_begin;
  const Share end = begin + client.sm;
  if (begin < kNone || end > kWhole) {
    return Error{ErrorKind::kInvalid, "client " + std::to_string(client.id) + ": position: sm " +
                                          permille(begin) + " … " + permille(end) +
                                          " does not lie within 0 … 1000 ‰"};
  }
  Share requests = client.quota.request;
  for (const Account& a : accounts_.all()) {
    const ShareClient& other = a.client;
    if (other.id == client.id) continue;
    const Share other_begin = other.position.sm_begin;
    if (other_begin == begin && other.sm == client.sm) {
      requests = requests + other.quota.request;
    } else if (begin < other_begin + other.sm && other_begin < end) {
      return refuse(client,
                    "overlaps the lane at " + permille(other_begin) + ", sm " + permille(other.sm));
    }
  }
  if (requests > kWhole) {
    return refuse(client, "requests would add up to " + permille(requests) + " of 1000 ‰");
  }
  accounts_.put(client, now);
  arrange();
  return {};
}

void WindowArbiter::remove(ClientId id, Time now) {
  AccountedArbiter::remove(id, now);
  arrange();
}

// Sorts the clients into lanes; each lane's turn stays with its client.
void WindowArbiter::arrange() {
  const auto accounts = accounts_.all();
  std::vector<size_t> places(accounts.size());
  std::iota(places.begin(), places.end(), 0);
  std::sort(places.begin(), places.end(), [&](size_t a, size_t b) {
    return std::tie(accounts[a].client.position, a) < std::tie(accounts[b].client.position, b);
  });
  std::vector<Lane> lanes;
  for (const size_t place : places) {
    const Share begin = accounts[place].client.position.sm_begin;
    if (lanes.empty() || lanes.back().sm_begin != begin) lanes.push_back({.sm_begin = begin});
    lanes.back().order.push_back(place);
  }
  for (Lane& lane : lanes) {
    const auto old = std::find_if(lanes_.begin(), lanes_.end(),
                                  [&](const Lane& l) { return l.sm_begin == lane.sm_begin; });
    if (old == lanes_.end()) continue;
    const auto at = std::find_if(lane.order.begin(), lane.order.end(), [&](size_t place) {
      return accounts[place].client.id == old->last;
    });
    if (at == lane.order.end()) continue;
    lane.turn = at - lane.order.begin();
    lane.last = old->last;
    lane.turn_end = old->turn_end;
  }
  lanes_ = std::move(lanes);
}

size_t WindowArbiter::next_holder(const Lane& lane, Time now) {
  const size_t size = lane.order.size();
  // A turn that is over gives way to the others first; the current client comes last (place `size`
  // is place 0 again).
  const size_t first = now < lane.turn_end ? 0 : 1;
  for (const bool owed : {true, false}) {
    for (size_t place = first; place < first + size; ++place) {
      const Account& a = member(lane, place);
      const bool may = a.owed_left(now) >= kLeastGrant || (!owed && accounts_.lends());
      if (a.eligible(now) && may) return place % size;
    }
  }
  return size;
}

// A waiting client's entitlement outlives the window: in full behind a holder past its end, and up
// to one window's request behind the turns of others. So a turn that slides over the window's end
// is not lost. But neither the cost of hand-overs nor the turns of idle holders add up.
void WindowArbiter::wait_for_turn(Account& a, bool draining, Time now) {
  if (!a.eligible(now) || a.owed_left(now) < kLeastGrant) return;
  accounts_.block(a, draining ? Time::max() : now + std::max(a.request - a.deprived, Nanos(0)));
}

void WindowArbiter::decide(Lane& lane, Time now, Permits& permits) {
  const size_t size = lane.order.size();
  const size_t next = next_holder(lane, now);
  if (next == size) return;  // no client has work: a permit stays parked where it is

  // 1. The lane must be empty but for the next holder.
  bool draining = false;
  bool waiting = false;
  for (size_t place = 0; place < size; ++place) {
    Account& a = member(lane, place);
    if (place == next) continue;
    if (a.granted()) accounts_.revoke(a, permits);
    draining |= a.holds();
    waiting |= a.eligible(now);
  }
  for (size_t place = 0; place < size; ++place) {
    if (place != next || draining) wait_for_turn(member(lane, place), draining, now);
  }
  if (draining) return;

  // 2. The turn: the client's entitlement, in busy time and in wall time, so that a holder that is
  //    not busy pays for it.
  Account& a = member(lane, next);
  const bool owed = a.owed_left(now) >= kLeastGrant;
  a.others_wait = waiting;
  const bool new_turn = next != 0 || now >= lane.turn_end;
  if (new_turn) {
    lane.turn = (lane.turn + next) % size;
    lane.last = a.client.id;
    lane.turn_end = now + (owed ? a.owed_left(now) : accounts_.config().window / kTurnsPerWindow);
  }

  // 3. The permit, if it is not in force already.
  Nanos budget = accounts_.free_budget(a);
  if (owed && a.others_wait) budget = std::min(budget, a.owed_left(now));
  accounts_.renew(a, budget, permits);
  if (!a.others_wait) return;
  permits.next = std::min({permits.next, std::max(lane.turn_end, now + kLeastGrant),
                           now + std::max(a.soonest(a.budget_left(now)), kLeastGrant)});
}

Permits WindowArbiter::step(Time now) {
  now = accounts_.advance(now);
  Permits permits;
  accounts_.withdraw_excess(permits);
  for (Lane& lane : lanes_) decide(lane, now, permits);
  accounts_.park_idle(permits);
  permits.next = std::min(permits.next, accounts_.next_change());
  return permits;
}

}  // namespace sluice::policy
