#include "arbiters/shares.h"

#include <algorithm>
#include <cmath>
#include <string>

#include "arbiters/account.h"

namespace sluice::policy {
namespace {

constexpr double kNsPerMs = 1e6;
constexpr double kRemembered = 20 * kNsPerMs;  // of cost and host time: the last launches' class
constexpr double kForgottenPerSecond = 0.01;   // of the shortest iteration
constexpr Nanos kLately = Millis(100);         // a client with an objective was active

double ns(Nanos n) {
  return static_cast<double>(n.count());
}
Nanos from_ns(double n) {
  return Nanos(static_cast<int64_t>(n));
}

}  // namespace

// --- clients -------------------------------------------------------------------------------------

// Hosts report clients in order, so this is usually the next client, or the same one again.
SharesArbiter::Client* SharesArbiter::find(ClientId id) {
  const auto is_at = [&](size_t place) {
    return place < clients_.size() && clients_[place].id == id;
  };
  if (is_at(last_found_ + 1)) return &clients_[++last_found_];
  if (is_at(last_found_)) return &clients_[last_found_];
  const auto at = std::ranges::lower_bound(clients_, id, {}, &Client::id);
  if (at == clients_.end() || at->id != id) return nullptr;
  last_found_ = static_cast<size_t>(at - clients_.begin());
  return &*at;
}

Result<void> SharesArbiter::admit(const ShareClient& share, Time now) {
  SLUICE_TRY(check_shares(share));
  // Σ request of the clients that may need one SM, which is most where one of them begins.
  const auto covers = [&](const ShareClient& c, Share column) {
    return !config_.side_by_side ||
           (c.position.sm_begin <= column && column < c.position.sm_begin + c.sm);
  };
  const auto part = [&](const ShareClient& c) {
    return config_.side_by_side ? 1000 * c.quota.request.permille
                                : c.sm.permille * c.quota.request.permille;
  };
  const auto check = [&](Share column) -> Result<void> {
    int sum = covers(share, column) ? part(share) : 0;
    for (const Client& c : clients_)
      if (c.id != share.id && covers(c.share, column)) sum += part(c.share);
    if (sum <= 1'000'000) return {};
    return Error{ErrorKind::kExhausted,
                 "quota.request: " + std::to_string(share.quota.request.permille) +
                     " ‰ of client " + std::to_string(share.id) + " makes " +
                     std::to_string(sum / 1000) + " ‰ on the same SMs; at most 1000"};
  };
  SLUICE_TRY(check(share.position.sm_begin));
  for (const Client& c : clients_)
    if (c.id != share.id && covers(share, c.share.position.sm_begin))
      SLUICE_TRY(check(c.share.position.sm_begin));

  Client* known = find(share.id);
  if (known == nullptr) {
    const auto at = std::ranges::lower_bound(clients_, share.id, {}, &Client::id);
    known = &*clients_.emplace(at, Client{.id = share.id, .audit = CostAudit(now)});
    set_shares(*known, share);
    known->bucket = known->limit * ns(kAhead);
  }
  set_shares(*known, share);
  form_lanes();
  return {};
}

// Of the lane's time. Without MPS a client gets the device's SMs for less time instead.
void SharesArbiter::set_shares(Client& c, const ShareClient& share) const {
  const double part = config_.side_by_side ? 1.0 : share.sm.fraction();
  c.share = share;
  c.has_slo = share.has_slo;
  c.request = part * std::max(share.quota.request.permille, 1) / 1000;
  c.limit = part * share.quota.limit.fraction();
  c.limited = share.quota.limit < kWhole;
}

void SharesArbiter::remove(ClientId id, Time) {
  std::erase_if(clients_, [id](const Client& c) { return c.id == id; });
  std::erase_if(turns_, [id](const Turn& turn) { return turn.holder == id; });
  form_lanes();
}

bool SharesArbiter::overlap(const Client& a, const Client& b) const {
  const auto end = [](const Client& c) { return c.share.position.sm_begin + c.share.sm; };
  return !config_.side_by_side ||
         (a.share.position.sm_begin < end(b) && b.share.position.sm_begin < end(a));
}

// Clients whose SMs overlap, directly or through others'. A client's lead v is kept where its lane
// changes.
void SharesArbiter::form_lanes() {
  std::vector<Client*> order;
  for (Client& c : clients_) order.push_back(&c);
  std::ranges::sort(order, {}, [](const Client* c) { return c->share.position.sm_begin; });
  lanes_.clear();
  Share end = kNone;
  for (Client* c : order) {
    const ShareClient& share = c->share;
    if (lanes_.empty() || (config_.side_by_side && share.position.sm_begin >= end))
      lanes_.emplace_back();
    end = std::max(end, share.position.sm_begin + share.sm);
    c->lane = static_cast<uint32_t>(lanes_.size() - 1);
  }
}

// --- what clients report -------------------------------------------------------------------------

void SharesArbiter::want(ClientId id, bool wanting, Time) {
  if (Client* client = find(id)) client->wanting = wanting;
}

void SharesArbiter::progress(ClientId id, const Progress& progress, Time) {
  Client* client = find(id);
  if (client == nullptr) return;
  const double cost = std::max(ns(progress.submitted - client->seen.submitted), 0.0);
  const double host = std::max(ns(progress.host - client->seen.host), 0.0);
  const double kept = std::max(1 - (cost + host) / kRemembered, 0.0);
  client->cost = client->cost * kept + cost;
  client->host = client->host * kept + host;
  const Progress& before = client->seen;
  if (before.begun != Time::max() && progress.begun != before.begun) {  // that iteration has ended
    const bool another = progress.begun != Time::max();
    const Nanos end = another ? progress.submitted_before : progress.submitted;
    client->iteration_work = std::max(end - before.submitted_before, Nanos(0));
  }
  client->seen = progress;
  // A client may say anything: an examination lasts no longer than the longest piece of work.
  client->seen.longest = std::clamp(progress.longest, Nanos(0), config_.drain_bound);
}

void SharesArbiter::iteration(ClientId id, Nanos cycle, uint32_t number, Time now) {
  Client* client = find(id);
  if (client == nullptr || cycle <= Nanos(0)) return;
  auto known = std::ranges::find(client->kinds, number, &Kind::number);
  if (known == client->kinds.end()) {
    if (client->kinds.size() == kKinds)  // it replaces the one that was not seen for longest
      client->kinds.erase(std::ranges::min_element(client->kinds, {}, &Kind::seen_at));
    known = client->kinds.insert(client->kinds.end(), {.number = number, .shortest = cycle});
  }
  const double idle = seconds(std::max(now - known->seen_at, Nanos(0)));
  const double forgotten = 1 + kForgottenPerSecond * std::min(idle, 1.0);
  known->shortest = std::min(from_ns(ns(known->shortest) * forgotten), cycle);
  known->busy = client->iteration_work;
  known->seen = std::min(known->seen + 1, kLearnt);
  known->seen_at = now;
}

// Beside it, timings are not of a client alone, for as long as its work may still run.
bool SharesArbiter::unfinished(const Client& c) const {
  const Nanos left = c.seen.submitted - c.seen.finished;
  return left > Nanos(0) &&
         (waits(c) || c.seen.seen == Time::max() ||
          now_ < c.seen.seen + std::min<Nanos>(left, Seconds(1)) + config_.drain_bound);
}

// A client that does not wait reports nothing meanwhile: what it had in flight counts as run when
// it has had its time.
bool SharesArbiter::in_flight(const Client& c) const {
  const Nanos left = c.seen.submitted - c.seen.finished;
  if (left <= Nanos(0)) return false;
  return waits(c) || c.seen.seen == Time::max() ||
         now_ < c.seen.seen + from_ns(ns(left) * c.audit.factor()) + kTick;
}

// The device is at work for it, as far as it says: it waits for that, or cannot have ended what it
// had in flight when it reported.
bool SharesArbiter::busy(const Client& c) const {
  const Nanos left = c.seen.submitted - c.seen.finished;
  return left > Nanos(0) && (waits(c) || c.seen.seen == Time::max() || now_ - c.seen.seen <= left);
}

bool SharesArbiter::active(const Client& c) const {
  return in_flight(c) || waits_for_budget(c) || c.seen.waits_for_device;
}

bool SharesArbiter::wants_more(const Client& c) const {
  if (!c.wanting) return false;
  return waits_for_budget(c) || c.seen.waits_for_device || (bound(c) && active(c));
}

// --- the decision --------------------------------------------------------------------------------

void SharesArbiter::count(Client& c, double passed) {
  const double used = ns(c.seen.submitted - c.counted) * c.audit.factor();
  c.counted = c.seen.submitted;
  const double r = c.request, most = r * ns(kOwedMost);
  c.wants_more = wants_more(c);
  if (used != 0) c.v += used / r;
  c.bucket = std::min(c.bucket + c.limit * passed - used, c.limit * ns(kAhead));
  // Time forgives what was borrowed; it is owed only what it wants.
  const double earned = r * passed;
  c.owed += c.wants_more ? earned : std::min(earned, std::max(-c.owed, 0.0));
  c.owed = std::clamp(c.owed - used, -most, most);
}

// V advances to the least v of the backlogged; v is kept relative to it.
void SharesArbiter::advance() {
  for (const Client& c : clients_)
    if (backlogged(c)) lanes_[c.lane].least = std::min(lanes_[c.lane].least, c.v);
  for (Client& c : clients_) {
    const double least = lanes_[c.lane].least;
    if (least < HUGE_VAL) c.v -= std::max(least, 0.0);
    if (!c.wants_more) c.v = std::max(c.v, -ns(kCredit));
  }
}

// Marks the lanes in which an open iteration needs the device to itself from now on.
void SharesArbiter::hold() {
  next_hold_ = Time::max();
  for (const Client& c : clients_) {
    if (!c.has_slo || c.seen.begun == Time::max()) continue;
    const auto kind = std::ranges::find_if(
        c.kinds, [&](const Kind& k) { return k.number == c.seen.kind && k.shortest > Nanos(0); });
    if (kind == c.kinds.end() || kind->seen < kLearnt) {
      lanes_[c.lane].hold |= now_ < c.seen.begun + kLearnWithin;
      continue;
    }
    const int own = config_.side_by_side ? kToleranceSideBySide : kTolerance;
    const int tolerance = c.share.tolerance > 0 ? c.share.tolerance : own;
    const Nanos tolerated = kind->shortest * tolerance / 1000;
    const Time latest = c.seen.begun + tolerated - kind->busy - kInFlight;
    if (now_ >= c.seen.begun + 2 * tolerated) continue;
    if (now_ < latest)
      next_hold_ = std::min(next_hold_, latest);
    else
      lanes_[c.lane].hold = true;
  }
  for (Client& c : clients_)
    c.held = lanes_[c.lane].hold && !c.has_slo && c.owed < ns(kInFlightBorrowed);
}

// A client with a rival is examined when that is due; between the iterations of clients with an
// objective, if there is time between them.
bool SharesArbiter::examined(const Client& c) const {
  if (lanes_[c.lane].wanting < 2) return false;
  return overdue(c) || (c.audit.due(now_) && !iterations_beside(c));
}

bool SharesArbiter::takes_turns(const Client& c) const {
  return c.wanting && !c.held && !c.capped && ((bound(c) && !c.has_slo) || examined(c));
}

const SharesArbiter::Turn* SharesArbiter::turn_of(const Client& c) const {
  const auto at = std::ranges::find(turns_, c.id, &Turn::holder);
  return at != turns_.end() ? &*at : nullptr;
}

bool SharesArbiter::beside_exclusive(const Client& c) {
  return std::ranges::any_of(turns_, [&](const Turn& turn) {
    return turn.exclusive && turn.holder != c.id && overlap(c, *find(turn.holder));
  });
}

bool SharesArbiter::alone(const Client& client) const {
  return std::ranges::none_of(clients_, [&](const Client& c) {
    return c.id != client.id && overlap(c, client) && c.in_flight_since_last;
  });
}

double SharesArbiter::least_ratio() const {
  double least = HUGE_VAL;
  int known = 0;
  for (const Client& c : clients_) {
    if (c.audit.ratio() == 0) continue;
    ++known;
    least = std::min(least, c.audit.ratio());
  }
  return known > 1 ? std::max(least, 1.0) : 1.0;
}

// Compares the costs of the client of a lane that was alone since the last step with the time that
// has passed.
void SharesArbiter::examine(Nanos passed) {
  for (Client& c : clients_) {
    c.in_flight_since_last = in_flight(c) || c.was_in_flight || c.seen.finished > c.finished;
    c.unfinished_since_last = unfinished(c) || c.was_unfinished || c.seen.finished > c.finished;
    lanes_[c.lane].active += c.in_flight_since_last ? 1 : 0;
    lanes_[c.lane].unfinished += c.unfinished_since_last ? 1 : 0;
    lanes_[c.lane].unfinished_now += unfinished(c) ? 1 : 0;
  }
  for (Turn& turn : turns_)
    if (turn.exclusive && turn.alone_since > now_ && alone(*find(turn.holder)))
      turn.alone_since = now_;
  for (Client& c : clients_) {
    const Turn* turn = turn_of(c);
    const bool exclusive = turn != nullptr && turn->exclusive && turn->alone_since < now_;
    if (exclusive || (c.in_flight_since_last && lanes_[c.lane].active == 1)) {
      // It waited for the device at both ends of the interval, at one (for half of it, on average),
      // or at none. While it does not wait, the device may have done its work long since.
      const CostAudit::Interval alone = {.passed = passed,
                                         .busy = passed * (int{busy(c)} + int{c.was_busy}) / 2,
                                         .finished = c.seen.finished - c.finished};
      if (exclusive)
        c.audit.measure(alone);
      else
        c.audit.glance(alone, c.seen.longest, least_ratio(), now_);
    }
    c.was_in_flight = in_flight(c);
    c.was_unfinished = unfinished(c);
    c.was_busy = busy(c);
    c.finished = c.seen.finished;
  }
}

// A holder that launches nothing gives its turn up. An exclusive turn also ends with the time, and
// lasts until its work has run: the audit is to see all that begins in it end.
bool SharesArbiter::is_over(Turn& turn) {
  const Client* c = find(turn.holder);
  if (c == nullptr || !takes_turns(*c)) return true;
  const bool silent = !active(*c) && now_ - (turn.exclusive ? began(turn) : turn.since) >= kTick;
  const Nanos lasted = now_ - turn.since;
  if (!turn.exclusive && lasted > kQuantum + config_.drain_bound) {  // it has kept the device
    find(turn.holder)->v += ns(lasted) / c->request;
    return true;
  }
  if (!turn.exclusive) return silent || c->seen.submitted >= turn.until;
  const Time from = began(turn);
  if (now_ - from >= kQuantum || (!turn.forced && iterations_beside(*c)))
    turn.until = std::min(turn.until, c->seen.submitted);
  const bool waits = in_flight(*c) && now_ - from < kQuantum + config_.drain_bound;
  return silent || (c->seen.submitted >= turn.until && !waits);
}

void SharesArbiter::pass_turns() {
  std::erase_if(turns_, [this](Turn& turn) {
    if (!is_over(turn)) return false;
    Client* holder = find(turn.holder);
    if (turn.exclusive && holder != nullptr && holder->audit.complete(holder->seen.longest))
      holder->audit.judge(least_ratio(), now_);
    return true;
  });
  for (;;) {
    const Client* next = nullptr;
    for (const Client& c : clients_) {
      if (!takes_turns(c) || !active(c) || (next != nullptr && next->v <= c.v)) continue;
      const bool free = std::ranges::none_of(
          turns_, [&](const Turn& turn) { return overlap(c, *find(turn.holder)); });
      if (free) next = &c;
    }
    if (next == nullptr) return;
    const double quantum = ns(kQuantum) / next->audit.factor();
    turns_.push_back({.holder = next->id,
                      .until = next->seen.submitted +
                               from_ns(lanes_[next->lane].has_objective ? quantum / 2 : quantum),
                      .since = now_,
                      .exclusive = examined(*next),
                      .forced = overdue(*next)});
  }
}

void SharesArbiter::set_budget(Client& c, Budget& out) {
  const Lane& lane = lanes_[c.lane];
  const double r = c.request;
  const bool alone = lane.backlogged <= (backlogged(c) ? 1 : 0);
  double more = alone ? std::max(ns(3 * kTick), r * ns(kAhead)) : r * (ns(kAhead) - c.v);
  c.capped = c.limited && c.bucket < more;
  if (c.capped) more = c.bucket;
  if (c.audit.misreports()) more /= c.audit.factor();
  if (takes_turns(c) && (lane.rivals > 1 || examined(c))) {
    const Turn* turn = turn_of(c);
    // Short units that begin a little before it is alone do not matter to the audit.
    const bool begins = turn != nullptr && (!turn->exclusive || began(*turn) <= now_ ||
                                            ns(c.seen.longest) * c.audit.factor() <= ns(kTick));
    more = begins ? ns(turn->until - c.seen.submitted) : 0;
  }
  if (lane.hold && !c.has_slo) more = std::min(more, c.owed);  // no more than it is owed
  if (beside_exclusive(c)) more = 0;
  Nanos in_flight = kInFlight;
  if (!bound(c) && (c.has_slo || !lane.has_objective))
    in_flight = kInFlightOfHost;
  else if (!c.has_slo && c.owed <= 0 && lane.has_bound_objective)
    in_flight = kInFlightBorrowed;
  if (c.audit.misreports()) in_flight = from_ns(ns(in_flight) / c.audit.factor());
  out.client = c.id;
  out.allowed = c.seen.submitted + from_ns(std::max(more, 0.0));
  out.in_flight = std::max(in_flight, Nanos(1));
  out.held = c.held;
  const bool could = c.seen.submitted < c.allowed && !c.was_held;
  if (!could) c.may_since = now_;
  c.was_held = c.held;
  c.allowed = out.allowed;
  const bool others_now = lane.unfinished_now > (unfinished(c) ? 1 : 0);
  const bool others = lane.unfinished > (c.unfinished_since_last ? 1 : 0);
  if (others_now)
    c.alone_since = Time::max();
  else if (others || c.alone_since == Time::max())
    c.alone_since = now_;
  out.alone_since = c.alone_since;
  out.beside = lane.wanting > (c.wanting ? 1 : 0) || others;
}

// What the lanes' clients are doing.
void SharesArbiter::look_around(double passed) {
  for (Lane& lane : lanes_) lane = {};
  for (Client& c : clients_) {
    count(c, passed);
    Lane& lane = lanes_[c.lane];
    if (c.wanting) c.wanted_at = now_;
    const bool lately = c.has_slo && now_ - c.wanted_at < kLately;
    lane.wanting += c.wanting ? 1 : 0;
    lane.has_objective |= lately;
    lane.has_bound_objective |= lately && bound(c);
    lane.open_iterations += c.has_slo && c.seen.begun != Time::max() ? 1 : 0;
  }
}

Permits SharesArbiter::step(Time now) {
  const Nanos passed = std::max(now - now_, Nanos(0));
  now_ = std::max(now_, now);
  look_around(ns(passed));
  advance();
  hold();
  examine(passed);
  pass_turns();
  bool wanted = false;
  for (const Client& c : clients_) {
    lanes_[c.lane].rivals += takes_turns(c) ? 1 : 0;
    lanes_[c.lane].backlogged += backlogged(c) ? 1 : 0;
    wanted |= c.wanting;
  }
  Permits permits;
  permits.budgets.resize(clients_.size());
  for (size_t i = 0; i < clients_.size(); ++i) set_budget(clients_[i], permits.budgets[i]);
  const bool waits_for_end = std::ranges::any_of(turns_, [this](const Turn& turn) {
    return turn.exclusive &&
           (began(turn) > now_ || find(turn.holder)->seen.submitted >= turn.until);
  });
  if (wanted) permits.next = std::min(now_ + (waits_for_end ? kPoll : kTick), next_hold_);
  return permits;
}

}  // namespace sluice::policy
