#include "sim/front_door.h"

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "sim/fault.h"

namespace sluice::sim {

void Request::on_granted() {
  door_.set_waits(*this, false);
  door_.granted_.push_back(this);
}

void FrontDoor::set_waits(Request& r, bool waits) {
  waiting_ += waits - r.waits;
  r.waits = waits;
}

void FrontDoor::arrive(const FunctionName& f, int inferences, Time now) {
  if (spare_.empty()) {
    requests_.push_back(std::make_unique<Request>(*this));
    spare_.push_back(requests_.back().get());
  }
  Request& r = *spare_.back();
  spare_.pop_back();
  r.function = f;
  changed_.insert(f);
  r.arrived = now;
  r.tries = 0;
  r.ended = false;
  r.number = ++next_number_;
  r.inferences = inferences;
  r.begin_anew();
  r.times_out = Time::max();
  if (alive_)
    enter(r, now);
  else
    backlog_.push_back(&r);
}

void FrontDoor::enter(Request& r, Time now) {
  const gateway::Dispatcher::Entry found = dispatcher_->find(r, served_name(r.function), 0, "");
  if (found.refusal != gateway::Dispatcher::Refusal::kNone)
    return end(r, gateway::Outcome::kFailed, now);
  if (refused_.contains(r.number)) return finish(r, gateway::Outcome::kShed, now);
  set_waits(r, true);  // entering may grant it at once
  const gateway::Dispatcher::Entry entry = dispatcher_->enter(r, now, now);
  using Refusal = gateway::Dispatcher::Refusal;
  if (entry.refusal == Refusal::kNone) {
    r.times_out = now + found.timeout;
    timeouts_[found.timeout].push_back({r.times_out, &r, r.number});
  } else {
    end(r,
        entry.refusal == Refusal::kUnavailable ? gateway::Outcome::kFailed
                                               : gateway::Outcome::kShed,
        now);
  }
  settle(now);
}

// Hands over what the dispatcher has granted. Handing over may end requests, which grants more.
void FrontDoor::settle(Time now) {
  if (std::exchange(settling_, true)) return;
  while (!granted_.empty()) {
    const std::vector<Request*> granted = std::exchange(granted_, {});
    for (Request* r : granted) {
      changed_.insert(r->function);
      if (r->displaced()) {
        finish(*r, gateway::Outcome::kShed, now);
      } else if (r->granted() == nullptr) {
        finish(*r, gateway::Outcome::kFailed, now);
      } else if (r->at = r->granted()->id; !hand_over_(*r, now)) {
        r->at.clear();
        set_waits(*r, true);
        dispatcher_->again(*r, true, now);
      }
    }
  }
  settling_ = false;
}

void FrontDoor::finish(Request& r, gateway::Outcome outcome, Time now) {
  const auto inferences = static_cast<uint64_t>(std::max(r.inferences, 1));
  dispatcher_->finish(r, outcome, outcome == gateway::Outcome::kOk ? inferences : 0, now);
  end(r, outcome, now);
  settle(now);
}

void FrontDoor::broke(Request& r, Time now) {
  r.at.clear();
  if (r.tries++ > 0) return finish(r, gateway::Outcome::kBroken, now);
  set_waits(r, true);
  dispatcher_->again(r, false, now);
  settle(now);
}

void FrontDoor::end(Request& r, gateway::Outcome outcome, Time now) {
  SLUICE_CHECK(!r.ended, "a request ends once");
  changed_.insert(r.function);
  answered_({r.function, r.arrived, now, outcome, r.number});
  r.at.clear();
  set_waits(r, false);
  r.ended = true;
  spare_.push_back(&r);
}

void FrontDoor::crash(Time now) {
  if (!alive_) return;
  alive_ = false;
  settling_ = true;  // nothing is handed over any more
  for (const auto& r : requests_)
    if (!r->ended) finish(*r, gateway::Outcome::kBroken, now);
  granted_.clear();
  settling_ = false;
}

void FrontDoor::revive(Time now) {
  if (alive_) return;
  alive_ = true;
  ++started_;
  dispatcher_ = std::make_unique<gateway::Dispatcher>();
  if (there_are_routes_) dispatcher_->set_table(routes_, now);
  for (const auto& [served, route] : routes_.functions) changed_.insert(route.name);
  for (Request* r : std::exchange(backlog_, {})) enter(*r, now);
}

bool FrontDoor::routes_to(const Instance& i) const {
  const auto f = routes_.functions.find(served_name(i.function));
  if (f == routes_.functions.end()) return false;
  return std::ranges::any_of(f->second.instances,
                             [&](const InstanceRoute& r) { return r.id == i.id && r.ready; });
}

const Request* FrontDoor::overdue(Time now) const {
  for (const auto& r : requests_)
    if (!r->ended && r->times_out <= now) return r.get();
  return nullptr;
}

void FrontDoor::tick(Time now) {
  if (!alive_) return;
  if (waiting_ > 0) dispatcher_->tick(now);
  settle(now);
  for (auto& [timeout, waiting] : timeouts_)
    while (!waiting.empty() && waiting.front().at <= now) {
      const Deadline d = waiting.front();
      waiting.pop_front();
      if (!d.request->ended && d.request->number == d.number)
        finish(*d.request, gateway::Outcome::kTimedOut, now);
    }
}

std::set<InstanceId> FrontDoor::set_routes(const RoutingTable& table, Time now) {
  const RoutingChange change = change_between(routes_, table);
  SLUICE_CHECK(dispatcher_->change_table(change, now), "the dispatcher has this table");
  for (const auto& [served, route] : change.changed) changed_.insert(route.name);
  apply(routes_, change);
  there_are_routes_ = true;
  settle(now);
  const std::vector<std::string> busy = dispatcher_->busy();
  return {busy.begin(), busy.end()};
}

control::ObservedGateway FrontDoor::observe(Time now) {
  control::ObservedGateway g{
      .name = std::string(kGateway), .there = alive_, .seen = 1, .started = started_};
  if (!alive_) return g;
  g.routes_version = there_are_routes_ ? routes_.version : -1;
  const std::vector<std::string> busy = dispatcher_->busy();
  g.busy = {busy.begin(), busy.end()};
  const auto busy_one = [](const control::ObservedAnswers& a) { return a.in_flight > 0; };
  for (auto f = changed_.begin(); f != changed_.end();) {
    const size_t overdue = g.overdue.size();
    auto traffic = traffic_of(*f, g.overdue, now);
    const bool goes_on = traffic && (traffic->queued > 0 || g.overdue.size() > overdue ||
                                     std::ranges::any_of(traffic->instances, busy_one));
    if (traffic) g.traffic.push_back(std::move(*traffic));
    f = goes_on ? std::next(f) : changed_.erase(f);
  }
  return g;
}

std::optional<control::ObservedTraffic> FrontDoor::traffic_of(const FunctionName& f,
                                                              std::map<InstanceId, Nanos>& overdue,
                                                              Time now) {
  const auto stats = dispatcher_->stats(served_name(f), now);
  if (!stats) return std::nullopt;
  const gateway::Counters& c = stats->counters;
  control::ObservedTraffic t{.function = f,
                             .requests = c.requests,
                             .ok = c.ok,
                             .invalid = c.invalid,
                             .shed = c.shed,
                             .failed = c.failed,
                             .timed_out = c.timed_out,
                             .gone = c.gone,
                             .late = c.late,
                             .cold_starts = c.cold_starts,
                             .retried = c.retried,
                             .inferences = c.inferences,
                             .repeated = c.repeated,
                             .queued = stats->queued,
                             .in_flight = stats->in_flight,
                             .concurrency_seconds = c.concurrency_seconds,
                             .gaps = c.gaps,
                             .gap_sum = c.gap_sum,
                             .gap_squares = c.gap_squares,
                             .latency = c.latency,
                             .instances = {}};
  for (const gateway::Upstream& u : stats->instances) {
    t.instances.push_back({u.id, u.outstanding, u.answered, u.inferences, u.late, u.slow, u.busy});
    if (u.answered > 0)
      t.instances.back().spread =
          std::make_shared<control::AnswerSpread>(control::AnswerSpread{u.latency, u.body_bytes});
    if (u.overdue_since != Time{}) overdue[u.id] = now - u.overdue_since;
  }
  std::ranges::sort(t.instances, {}, &control::ObservedAnswers::instance);
  return t;
}

}  // namespace sluice::sim
