// The table, the hand-over of requests to instances, their ends, and the figures. How a request
// enters: dispatcher_admission.cc. What is kept of a function: function_state.h.
#include "gateway/dispatcher.h"

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "base/secret.h"
#include "gateway/function_state.h"

namespace sluice::gateway {

namespace {

constexpr Nanos kDownFirst = Millis(50);
constexpr Nanos kDownMost = Seconds(2);

void mark_broken(Upstream& u, Time now) {
  u.down_for = std::clamp(u.down_for * 2, kDownFirst, kDownMost);
  u.down_until = now + u.down_for;
}

// `overdue`: the instance had the request for most of its time-out. It may still be working on it,
// so others get the next requests.
void note_end(Upstream& u, Outcome outcome, bool overdue, Time now) {
  if (outcome == Outcome::kBroken || overdue) mark_broken(u, now);
  if (overdue && u.overdue_since == Time{}) u.overdue_since = now;
  if (outcome == Outcome::kOk || outcome == Outcome::kInvalid || outcome == Outcome::kFailed)
    u.overdue_since = Time{};
  if (outcome == Outcome::kOk) u.down_for = Nanos(0);
}

struct Answered {
  Nanos latency{0};  // since the arrival
  Nanos held{0};     // since the grant
  Nanos slo{0};      // 0: none
  uint64_t inferences = 0, body_bytes = 0;

  bool late() const { return slo > Nanos(0) && latency > slo; }
  bool slow() const { return slo > Nanos(0) && held > slo; }
};

void note_answer(Upstream& u, const Answered& a) {
  ++u.answered;
  u.inferences += a.inferences;
  u.late += a.late();
  u.slow += a.slow();
  u.late_lately.add(a.late());
  u.latency.add(a.latency);
  u.body_bytes.add(a.body_bytes);
}

// A request of an unknown number counts as one.
int inferences_asked(const Waiter& w) {
  return w.is_inference ? std::max(w.inferences, 1) : 0;
}

}  // namespace

void Dispatcher::set_table(RoutingTable table, Time now) {
  const std::lock_guard lock(mutex_);
  for (auto& [served, f] : functions_)
    if (!table.functions.contains(served)) remove(*f, now);
  for (const auto& [served, route] : table.functions) set_route(served, route, now);
  table_ = std::move(table);
}

bool Dispatcher::change_table(const RoutingChange& change, Time now) {
  const std::lock_guard lock(mutex_);
  if (table_.version != change.since) return false;
  for (const FunctionName& name : change.removed)
    if (const auto f = functions_.find(served_name(name)); f != functions_.end())
      remove(*f->second, now);
  for (const auto& [served, route] : change.changed) set_route(served, route, now);
  apply(table_, change);
  return true;
}

void Dispatcher::remove(FunctionState& f, Time now) {
  if (f.removed) return;
  f.removed = true;
  leaving_.insert(leaving_.end(), f.upstreams.begin(), f.upstreams.end());
  f.route.instances.clear();
  f.views.clear();
  f.upstreams.clear();
  f.routed.instances.clear();
  dispatch(f, now);
}

void Dispatcher::set_route(const std::string& served, const FunctionRoute& route, Time now) {
  std::shared_ptr<FunctionState>& slot = functions_[served];
  if (!slot) slot = std::make_shared<FunctionState>();
  FunctionState& f = *slot;
  f.integrate(now);
  f.removed = false;
  const policy::Route* const policy = policy::find_route(route.route, routes_);
  SLUICE_CHECK(policy != nullptr, "a table names a route that there is not");
  if (f.policy != policy) f.routed = {.instances = std::vector<int64_t>(f.upstreams.size())};
  f.policy = policy;
  std::vector<InstanceView> views;
  std::vector<std::shared_ptr<Upstream>> upstreams;
  std::vector<int64_t> numbers;
  for (const InstanceRoute& i : route.instances) {
    // A known instance keeps its measurements.
    views.push_back({.revision = i.revision, .capability = i.capability});
    numbers.push_back(0);
    std::shared_ptr<Upstream> upstream;
    for (size_t k = 0; k < f.upstreams.size(); ++k)
      if (f.upstreams[k]->id == i.id && f.upstreams[k]->socket == i.socket) {
        upstream = f.upstreams[k];
        numbers.back() = f.routed.instances[k];
      }
    if (!upstream) {
      upstream = std::make_shared<Upstream>();
      upstream->id = i.id;
      upstream->socket = i.socket;
    }
    upstreams.push_back(std::move(upstream));
  }
  for (const auto& before : f.upstreams)
    if (std::ranges::find(upstreams, before) == upstreams.end()) leaving_.push_back(before);
  f.views = std::move(views);
  f.upstreams = std::move(upstreams);
  f.routed.instances = std::move(numbers);
  f.route = route;
  f.split.set(route.split);
  std::erase_if(f.revisions, [&f](const auto& entry) { return !f.splits_to(entry.first); });
  for (const policy::RevisionPercent& p : route.split) f.revisions[p.revision];
  dispatch(f, now);
}

RoutingTable Dispatcher::table() const {
  const std::lock_guard lock(mutex_);
  return table_;
}

bool Dispatcher::admits(std::string_view token) const {
  return platform_token_.empty() || same_secret(token, platform_token_);
}

bool Dispatcher::knows(std::string_view served) const {
  const std::lock_guard lock(mutex_);
  return table_.functions.contains(std::string(served));
}

void Dispatcher::line_up(Waiter& w) {
  w.ticket_ = w.function_->queues[w.revision_].of(w).push(w.deadline_, &w);
  w.queued_ = true;
}

void Dispatcher::sent(Waiter& w, Time now) {
  const std::lock_guard lock(mutex_);
  if (!w.sending_) return;
  w.sending_ = false;
  --w.function_->streaming;
  dispatch(*w.function_, now);
}

void Dispatcher::defer(Waiter& w) {
  const std::lock_guard lock(mutex_);
  if (!w.queued_) return;
  auto& queue = w.function_->queues[w.revision_].of(w);
  queue.remove(w.ticket_);
  w.ticket_ = queue.push(Time{}, &w);
}

// Ends the wait of every request in a queue that no instance will serve.
void Dispatcher::turn_away(RevisionQueue& queues, std::string_view why) {
  for (auto* queue : {&queues.kept, &queues.streamed})
    while (const auto waiting = queue->pop(Time{}, Nanos(0))) {
      Waiter& w = **waiting;
      w.queued_ = false;
      w.turned_away_ = why;
      w.on_granted();
    }
}

void Dispatcher::again(Waiter& w, bool refused_connection, Time now) {
  const std::lock_guard lock(mutex_);
  FunctionState& f = *w.function_;
  Upstream& broken = *w.upstream_;
  mark_broken(broken, now);
  f.counters.retried += !refused_connection && w.is_inference;
  release(w, 0, now);
  f.integrate(now);
  f.add(&FunctionState::Held::places, w, 1);
  w.counted_ = true;
  // If its revision is gone, it takes one that traffic goes to now.
  if (!f.splits_to(w.revision_)) w.revision_ = f.next_revision();
  line_up(w);
  dispatch(f, now);
}

// Returns what a granted request holds to its instance. `inferences`: those answered.
void Dispatcher::release(Waiter& w, uint64_t inferences, Time now) {
  if (!w.upstream_) return;
  FunctionState& f = *w.function_;
  f.integrate(now);
  --w.upstream_->outstanding;
  w.upstream_->asked -= inferences_asked(w);
  if (w.is_inference) w.upstream_->rate.end(inferences, now);
  if (inferences > 0) w.upstream_->last_answer = now;
  f.add(&FunctionState::Held::in_flight, w, -1);
  f.streaming -= std::exchange(w.sending_, false);
  if (w.is_inference) w.upstream_->busy += now - w.granted_at_;
  w.upstream_.reset();
}

void Dispatcher::count_end(const Waiter& w, Outcome outcome, uint64_t inferences, Time now) {
  FunctionState& f = *w.function_;
  Counters& c = f.counters;
  const Nanos latency = w.entered_ ? now - w.arrived_ : Nanos(0);
  RevisionStats& r = f.stats_of(w.revision_);
  if (outcome != Outcome::kOk) r.model.failed(latency);
  const bool was_lost = w.granted_at_ == Time{} || w.granted_at_ + f.service.mean() > w.deadline_;
  if (w.waited_ && !was_lost && (outcome == Outcome::kOk || outcome == Outcome::kTimedOut))
    f.margin.ended(now > w.deadline_, f.objective(), now);
  switch (outcome) {
    case Outcome::kOk: {
      const wire::ComputeReport report = w.compute.value_or(wire::ComputeReport{});
      const Answered answered{latency, now - w.granted_at_, f.route.slo,
                              std::max<uint64_t>(inferences, 1), w.body_bytes};
      r.last = now;
      r.model.succeeded(answered.inferences, latency, w.granted_at_ - w.arrived_ + report.queue,
                        report);
      ++c.ok;
      c.inferences += answered.inferences;
      c.latency.add(latency);
      c.late += answered.late();
      if (!w.upstream_) return;
      note_answer(*w.upstream_, answered);
      // One sample a batch; a streamed request took as long as its client.
      if (w.streams || w.more_ > 0) return;
      f.service.add(w.together_, now - w.granted_at_);
      w.upstream_->service.add(w.together_, now - w.granted_at_);
      return;
    }
    case Outcome::kInvalid:
      ++c.invalid;
      return;
    case Outcome::kFailed:
    case Outcome::kBroken:
      ++c.failed;
      ++r.broken;
      return;
    case Outcome::kTimedOut:
      ++c.timed_out;
      ++r.timed_out;
      return;
    case Outcome::kGone:
    case Outcome::kAbandoned:
      ++c.gone;
      ++r.cancelled;
      return;
    case Outcome::kShed:
      ++c.shed;
      ++r.rejected;
      return;
  }
}

void Dispatcher::finish(Waiter& w, Outcome outcome, uint64_t inferences, Time now) {
  const std::lock_guard lock(mutex_);
  if (!w.function_) return;
  const std::shared_ptr<FunctionState> keep = std::move(w.function_);
  w.function_ = keep;
  FunctionState& f = *keep;
  f.integrate(now);
  if (w.queued_) f.queues[w.revision_].of(w).remove(w.ticket_);
  if (w.counted_) f.add(&FunctionState::Held::places, w, -1);
  w.queued_ = w.counted_ = false;
  f.counters.requests += w.is_inference && !w.entered_;
  if (w.is_inference) count_end(w, outcome, inferences, now);
  if (outcome == Outcome::kShed) refused(f, w, Seconds(1), now);
  const bool in_vain = outcome == Outcome::kTimedOut || outcome == Outcome::kAbandoned;
  const bool overdue = in_vain && now - w.granted_at_ > f.route.timeout / 2;
  const std::shared_ptr<Upstream> freed = w.upstream_;
  if (freed) note_end(*freed, outcome, overdue, now);
  const bool answered = outcome == Outcome::kOk && w.is_inference;
  release(w, answered ? std::max<uint64_t>(inferences, 1) : 0, now);
  w.function_.reset();
  dispatch(f, now, freed.get());
}

void Dispatcher::tick(Time now) {
  const std::lock_guard lock(mutex_);
  for (auto& [served, f] : functions_) dispatch(*f, now);
  std::erase_if(leaving_, [](const auto& upstream) { return upstream->outstanding == 0; });
  std::erase_if(functions_, [](const auto& entry) {
    return entry.second->removed && entry.second.use_count() == 1;
  });
}

// Hands waiting requests to instances that can start them. An instance takes a dispatch batch of
// `batch` requests when that much of its credit is free: a smaller hand-over would wait there,
// bound. `freed`: an instance whose credit just came back.
void Dispatcher::dispatch(FunctionState& f, Time now, const Upstream* freed) {
  if (!f.any_waits()) return;
  f.refresh(now);
  for (auto& [revision, queue] : f.queues) {
    if (queue.empty()) continue;
    if (const std::string_view why = f.unserved(revision); !why.empty()) {
      turn_away(queue, why);
      continue;
    }
    std::vector<Waiter*> granted;
    for (;;) {
      const Nanos service = f.lost_before();
      auto& next = queue.next(f.may_stream(), now, service);
      Waiter* const* head = next.head(now, service);
      if (head == nullptr) break;
      const auto chosen = f.instance_for(**head, freed, now);
      if (!chosen) break;
      Waiter* w = *next.pop(now, service);
      grant(f, *w, *chosen, now);
      granted.push_back(w);
    }
    for (size_t a = 0; a < granted.size(); ++a)
      for (size_t b = a + 1; b < granted.size(); ++b)
        if (granted[a]->upstream_ == granted[b]->upstream_) ++granted[a]->more_;
    for (Waiter* w : granted) w->together_ = w->upstream_->together;
    for (Waiter* w : granted) w->on_granted();
  }
}

void Dispatcher::grant(FunctionState& f, Waiter& w, size_t instance, Time now) {
  f.integrate(now);
  Upstream& u = *f.upstreams[instance];
  const int asks = inferences_asked(w);
  --f.views[instance].credit;
  ++f.views[instance].outstanding;
  f.views[instance].inferences += asks;
  if (u.asked == 0) u.rate.begin(now);
  u.asked += asks;
  u.together = ++u.outstanding;
  u.last_grant = now;
  f.add(&FunctionState::Held::places, w, -1);
  f.add(&FunctionState::Held::in_flight, w, 1);
  w.sending_ = w.streams;
  f.streaming += w.sending_;
  w.queued_ = w.counted_ = false;
  w.upstream_ = f.upstreams[instance];
  w.granted_at_ = now;
  w.more_ = 0;
  if (w.is_inference) {
    f.counters.cold_starts += w.cold_;
    f.counters.waiting.add(now - w.arrived_);
  }
  w.cold_ = false;
}

FunctionStats Dispatcher::stats_of(FunctionState& f, Time now) {
  f.integrate(now);
  FunctionStats s{.name = f.route.name,
                  .counters = f.counters,
                  .queued = f.load.places,
                  .in_flight = f.load.in_flight};
  for (const auto& u : f.upstreams) s.instances.push_back(*u);
  for (const policy::RevisionPercent& p : f.route.split) {
    RevisionStats& r = s.revisions[p.revision] = f.revisions[p.revision];
    const RevisionQueue& waiting = f.queues[p.revision];
    r.queued = static_cast<int>(waiting.kept.size() + waiting.streamed.size());
  }
  return s;
}

std::vector<FunctionStats> Dispatcher::stats(Time now) {
  const std::lock_guard lock(mutex_);
  std::vector<FunctionStats> out;
  for (auto& [served, f] : functions_)
    if (!f->removed) out.push_back(stats_of(*f, now));
  return out;
}

std::optional<FunctionStats> Dispatcher::stats(std::string_view served, Time now) {
  const std::lock_guard lock(mutex_);
  const auto found = functions_.find(served);
  if (found == functions_.end() || found->second->removed) return std::nullopt;
  return stats_of(*found->second, now);
}

std::vector<std::string> Dispatcher::busy() const {
  const std::lock_guard lock(mutex_);
  std::vector<std::string> ids;
  const auto look = [&](const std::vector<std::shared_ptr<Upstream>>& upstreams) {
    for (const auto& u : upstreams)
      if (u->outstanding > 0) ids.push_back(u->id);
  };
  for (const auto& [served, f] : functions_) look(f->upstreams);
  look(leaving_);
  return ids;
}

}  // namespace sluice::gateway
