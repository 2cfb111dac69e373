#include "sim/time_slices.h"

#include <algorithm>
#include <tuple>
#include <utility>

#include "base/check.h"
#include "sim/sharing.h"

namespace sluice::sim {

using policy::ClientId;

const TimeSlices::Client& TimeSlices::at(ClientId id) const {
  const auto found = std::ranges::find(clients_, id, &Client::id);
  SLUICE_CHECK(found != clients_.end(), "the client was added");
  return *found;
}

TimeSlices::Client& TimeSlices::at(ClientId id) {
  return const_cast<Client&>(std::as_const(*this).at(id));
}

bool TimeSlices::overlap(const Client& a, const Client& b) {
  return a.sm_begin < b.sm_begin + b.sm && b.sm_begin < a.sm_begin + a.sm;
}

// --- clients and their work ----------------------------------------------------------------------

void TimeSlices::put(ClientId id, Share sm_begin, Share sm) {
  auto c = std::ranges::find(clients_, id, &Client::id);
  if (c == clients_.end()) c = clients_.insert(c, Client{.id = id});
  if (c->sm_begin == sm_begin && c->sm == sm) return;
  if (std::exchange(c->on, false)) c->left = c->waits_since = now_;
  c->sm_begin = sm_begin;
  c->sm = sm;
}

void TimeSlices::remove(ClientId id) {
  std::erase_if(clients_, [id](const Client& c) { return c.id == id; });
}

void TimeSlices::queue(ClientId id, Nanos work) {
  Client& c = at(id);
  if (!c.on && !c.has_work()) c.waits_since = now_;
  c.queued += work;
}

void TimeSlices::advance(Time now) {
  for (Client& c : clients_) {
    const Nanos time = now - std::max(now_, c.runs_from);
    if (!c.on || !c.has_work() || time <= Nanos(0)) continue;
    c.done = std::min(c.done + time * 1000 / c.slow, c.queued);
    if (!c.has_work()) c.dry_since = now;
  }
  now_ = std::max(now_, now);
}

// --- whose turn it is ----------------------------------------------------------------------------

// Returns Time::max() if no other client waits for its SMs. A slice is over at the first multiple
// of its length at which another one does.
Time TimeSlices::turn_ends(const Client& c) const {
  Time since = Time::max();
  for (const Client& other : clients_)
    if (other.waits() && overlap(c, other)) since = std::min(since, other.waits_since);
  if (since == Time::max()) return since;
  const auto slices = std::max(since - c.runs_from, Nanos(0)) / gpu_.slice + 1;
  const Time ends = c.runs_from + slices * gpu_.slice;
  return c.has_work() ? ends : std::min(ends, std::max(c.dry_since, c.runs_from) + gpu_.linger);
}

void TimeSlices::settle() {
  for (Client& c : clients_) {
    if (!c.on || turn_ends(c) > now_) continue;
    c.on = false;
    c.left = c.waits_since = now_;
  }
  begin_turns();
  set_speeds();
}

// A client that waits for several others' SMs keeps those that are free from later ones.
void TimeSlices::begin_turns() {
  std::vector<Client*> waiting;
  for (Client& c : clients_)
    if (c.waits()) waiting.push_back(&c);
  std::ranges::sort(waiting, {}, [](const Client* c) { return std::pair(c->left, c->id); });
  for (auto at = waiting.begin(); at != waiting.end(); ++at) {
    Client& c = **at;
    const auto in_its_way = [&](const Client& o) { return &o != &c && overlap(o, c); };
    const bool taken =
        std::ranges::any_of(clients_, [&](const Client& o) { return o.on && in_its_way(o); });
    const bool claimed =
        std::any_of(waiting.begin(), at, [&](const Client* o) { return !o->on && in_its_way(*o); });
    if (taken || claimed) continue;
    const bool others_had_them = std::ranges::any_of(
        clients_, [&](const Client& o) { return in_its_way(o) && o.left > c.left; });
    c.on = true;
    c.runs_from = others_had_them ? now_ + gpu_.switching : now_;
  }
}

void TimeSlices::set_speeds() {
  Share running;
  for (const Client& c : clients_)
    if (c.runs(now_)) running = running + c.sm;
  for (Client& c : clients_)
    c.slow = slowness(c.sm, c.runs(now_) ? running - c.sm : kNone, contention_);
}

// --- when something changes ----------------------------------------------------------------------

Time TimeSlices::when(const Client& c, Nanos done) const {
  if (!c.on) return Time::max();
  return std::max(now_, c.runs_from) + ((done - c.done) * c.slow + Nanos(999)) / 1000;
}

Time TimeSlices::next() const {
  Time next = Time::max();
  for (const Client& c : clients_) {
    if (!c.on) continue;
    next = std::min(next, turn_ends(c));
    if (c.has_work()) next = std::min(next, c.runs_from > now_ ? c.runs_from : when(c, c.queued));
  }
  return next;
}

}  // namespace sluice::sim
