#include "sim/front_door.h"

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "sim/fault.h"

namespace sluice::sim {

void Request::on_granted() {
  door_.granted_.push_back(this);
}

void FrontDoor::arrive(const FunctionName& f, int inferences, Time now) {
  if (spare_.empty()) {
    requests_.push_back(std::make_unique<Request>(*this));
    spare_.push_back(requests_.back().get());
  }
  Request& r = *spare_.back();
  spare_.pop_back();
  r.function = f;
  r.arrived = now;
  r.tries = 0;
  r.ended = false;
  r.number = ++next_number_;
  r.inferences = inferences;
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
  const gateway::Dispatcher::Entry entry = dispatcher_->enter(r, now, now);
  using Refusal = gateway::Dispatcher::Refusal;
  if (entry.refusal == Refusal::kNone) {
    r.times_out = now + found.timeout;
    timeouts_[r.function].push_back({r.times_out, &r, r.number});
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
      if (r->displaced()) {
        finish(*r, gateway::Outcome::kShed, now);
      } else if (r->granted() == nullptr) {
        finish(*r, gateway::Outcome::kFailed, now);
      } else if (r->at = r->granted()->id; !hand_over_(*r, now)) {
        r->at.clear();
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
  dispatcher_->again(r, false, now);
  settle(now);
}

void FrontDoor::end(Request& r, gateway::Outcome outcome, Time now) {
  SLUICE_CHECK(!r.ended, "a request ends once");
  answered_({r.function, r.arrived, now, outcome});
  r.at.clear();
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
  RoutingTable kept = dispatcher_->table();
  dispatcher_ = std::make_unique<gateway::Dispatcher>();
  dispatcher_->set_table(std::move(kept), now);
  for (Request* r : std::exchange(backlog_, {})) enter(*r, now);
}

const Request* FrontDoor::overdue(Time now) const {
  for (const auto& r : requests_)
    if (!r->ended && r->times_out <= now) return r.get();
  return nullptr;
}

void FrontDoor::tick(Time now) {
  dispatcher_->tick(now);
  settle(now);
  for (auto& [f, waiting] : timeouts_)
    while (!waiting.empty() && waiting.front().at <= now) {
      const Deadline d = waiting.front();
      waiting.pop_front();
      if (!d.request->ended && d.request->number == d.number)
        finish(*d.request, gateway::Outcome::kTimedOut, now);
    }
}

std::set<InstanceId> FrontDoor::set_routes(const RoutingTable& table, Time now) {
  dispatcher_->set_table(table, now);
  version_ = table.version;
  routed_.clear();
  for (const auto& [name, f] : table.functions)
    for (const InstanceRoute& i : f.instances)
      if (i.ready) routed_.insert(i.id);
  settle(now);
  const std::vector<std::string> busy = dispatcher_->busy();
  return {busy.begin(), busy.end()};
}

control::ObservedGateway FrontDoor::observe(Time now) {
  control::ObservedGateway g{
      .name = std::string(kGateway), .there = alive_, .seen = 1, .started = started_};
  g.routes_version = version_;
  const std::vector<std::string> busy = dispatcher_->busy();
  g.busy = {busy.begin(), busy.end()};
  for (const gateway::FunctionStats& s : dispatcher_->stats(now)) {
    const gateway::Counters& c = s.counters;
    control::ObservedTraffic t{.function = s.name,
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
                               .queued = s.queued,
                               .in_flight = s.in_flight,
                               .concurrency_seconds = c.concurrency_seconds,
                               .gaps = c.gaps,
                               .gap_sum = c.gap_sum,
                               .gap_squares = c.gap_squares,
                               .latency = c.latency,
                               .instances = {}};
    for (const gateway::Upstream& u : s.instances) {
      t.instances.push_back({u.id, u.outstanding, u.answered, u.inferences, u.busy});
      if (u.overdue_since != Time{}) g.overdue[u.id] = now - u.overdue_since;
    }
    std::ranges::sort(t.instances, {}, &control::ObservedAnswers::instance);
    g.traffic.push_back(std::move(t));
  }
  std::ranges::sort(g.traffic, {}, &control::ObservedTraffic::function);
  return g;
}

}  // namespace sluice::sim
