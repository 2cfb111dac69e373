#include "gateway/dispatcher.h"

#include <algorithm>

#include "base/secret.h"

namespace sluice::gateway {

using policy::InstanceView;

struct FunctionState {
  FunctionRoute route;
  policy::RouteFunction choose = nullptr;
  policy::RevisionSplit split;
  std::vector<InstanceView> views;  // beside `upstreams`
  std::vector<std::shared_ptr<Upstream>> upstreams;
  std::map<int, policy::DeadlineQueue<Waiter*>> queues;  // by revision
  int places = 0;                                        // taken of route.max_queue
  int in_flight = 0;
  Nanos fastest = std::chrono::hours(1);  // service time, the shortest of late
  Counters counters;
  Time last_arrival{}, integrated_to{};
  bool removed = false;

  void integrate(Time now) {
    if (integrated_to != Time{} && now > integrated_to)
      counters.concurrency_seconds += (places + in_flight) * seconds(now - integrated_to);
    integrated_to = std::max(integrated_to, now);
  }

  void count_arrival(Time now) {
    ++counters.requests;
    if (last_arrival != Time{}) {
      const double gap = std::max(0.0, seconds(now - last_arrival));
      ++counters.gaps;
      counters.gap_sum += gap;
      counters.gap_squares += gap * gap;
    }
    last_arrival = now;
  }

  bool any_ready(int revision) const {
    for (size_t i = 0; i < views.size(); ++i)
      if (views[i].revision == revision && route.instances[i].ready) return true;
    return false;
  }
};

namespace {

constexpr Nanos kDownFirst = Millis(50);
constexpr Nanos kDownMost = Seconds(2);

void mark_broken(Upstream& u, Time now) {
  u.down_for = std::clamp(u.down_for * 2, kDownFirst, kDownMost);
  u.down_until = now + u.down_for;
}

}  // namespace

void Dispatcher::set_table(RoutingTable table, Time now) {
  const std::lock_guard lock(mutex_);
  for (auto& [served, f] : functions_)
    if (!table.functions.contains(served)) {
      f->removed = true;
      leaving_.insert(leaving_.end(), f->upstreams.begin(), f->upstreams.end());
      f->route.instances.clear();
      f->views.clear();
      f->upstreams.clear();
      turn_away_all(*f);
    }
  for (const auto& [served, route] : table.functions) {
    std::shared_ptr<FunctionState>& slot = functions_[served];
    if (!slot) slot = std::make_shared<FunctionState>();
    FunctionState& f = *slot;
    f.integrate(now);
    f.removed = false;
    std::vector<InstanceView> views;
    std::vector<std::shared_ptr<Upstream>> upstreams;
    for (const InstanceRoute& i : route.instances) {
      // Who was there keeps what is known of it.
      InstanceView view{.revision = i.revision, .capability = i.capability};
      std::shared_ptr<Upstream> upstream;
      for (size_t k = 0; k < f.upstreams.size(); ++k)
        if (f.upstreams[k]->id == i.id && f.upstreams[k]->socket == i.socket) {
          upstream = f.upstreams[k];
          view.balance = f.views[k].balance;
        }
      if (!upstream) {
        upstream = std::make_shared<Upstream>();
        upstream->id = i.id;
        upstream->socket = i.socket;
      }
      views.push_back(view);
      upstreams.push_back(std::move(upstream));
    }
    for (const auto& before : f.upstreams)
      if (std::ranges::find(upstreams, before) == upstreams.end()) leaving_.push_back(before);
    f.views = std::move(views);
    f.upstreams = std::move(upstreams);
    f.route = route;
    f.choose = policy::find_route(route.route)->choose;
    f.split.set(route.split);
    dispatch(f, now);
  }
  table_ = std::move(table);
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

Dispatcher::Entry Dispatcher::enter(Waiter& w, std::string_view served, int revision,
                                    std::string_view token, Time now) {
  const std::lock_guard lock(mutex_);
  const auto found = functions_.find(served);
  if (found == functions_.end() || found->second->removed)
    return {Refusal::kUnknown, "function '" + std::string(served) + "' not found"};
  FunctionState& f = *found->second;
  f.integrate(now);
  const std::string& wanted = f.route.token.empty() ? platform_token_ : f.route.token;
  if (!wanted.empty() && !same_secret(token, wanted))
    return {Refusal::kDenied, "this function wants a bearer token"};
  if (w.is_inference) f.count_arrival(now);
  if (revision == 0) {
    revision = f.split.next();
    if (revision == 0 && !f.route.instances.empty()) revision = f.route.instances.front().revision;
  } else {
    const bool known = std::any_of(f.route.split.begin(), f.route.split.end(),
                                   [&](const auto& p) { return p.revision == revision; });
    if (!known) {
      f.counters.invalid += w.is_inference;
      return {Refusal::kUnknownRevision,
              "function '" + std::string(served) + "' has no version " + std::to_string(revision)};
    }
  }
  if (!f.route.unavailable.empty() && !f.any_ready(revision)) {
    f.counters.failed += w.is_inference;
    return {Refusal::kUnavailable, f.route.unavailable};
  }
  // A place is for waiting: who can go at once needs none, and a queue of zero still serves.
  const int free = static_cast<int>(f.upstreams.size());
  if (f.places >=
      std::max(f.route.max_queue, f.places < free && f.queues[revision].empty() ? 1 : 0)) {
    f.counters.shed += w.is_inference;
    Entry full{Refusal::kFull, "the queue of '" + std::string(served) + "' is full (" +
                                   std::to_string(f.route.max_queue) + " waiting)"};
    double capability = 0;
    for (const InstanceView& v : f.views) capability += v.capability;
    full.retry_after =
        std::clamp<Nanos>(capability > 0 ? from_seconds(f.places / capability) : Nanos(Seconds(1)),
                          Seconds(1), Seconds(60));
    return full;
  }
  ++f.places;
  w.function_ = found->second;
  w.counted_ = true;
  w.arrived_ = now;
  w.deadline_ = now + (f.route.slo > Nanos(0) ? f.route.slo : f.route.timeout);
  w.revision_ = revision;
  w.upstream_.reset();
  w.cold_ = !f.any_ready(revision);
  return {.timeout = f.route.timeout, .token_is_ours = !wanted.empty()};
}

void Dispatcher::ready(Waiter& w, Time now) {
  const std::lock_guard lock(mutex_);
  line_up(w);
  dispatch(*w.function_, now);
}

// Into its queue, unless its function was deleted since it came.
void Dispatcher::line_up(Waiter& w) {
  FunctionState& f = *w.function_;
  if (f.removed) return w.on_granted();
  w.ticket_ = f.queues[w.revision_].push(w.deadline_, &w);
  w.queued_ = true;
}

// Nobody will take who waits for a function that was deleted: they need not wait for their
// time-out.
void Dispatcher::turn_away_all(FunctionState& f) {
  for (auto& [revision, queue] : f.queues)
    while (const auto waiting = queue.pop(Time{}, Nanos(0))) {
      (*waiting)->queued_ = false;
      (*waiting)->on_granted();
    }
}

void Dispatcher::again(Waiter& w, bool refused_connection, Time now) {
  const std::lock_guard lock(mutex_);
  FunctionState& f = *w.function_;
  Upstream& broken = *w.upstream_;
  mark_broken(broken, now);
  f.counters.retried += !refused_connection && w.is_inference;
  release(w, now);
  f.integrate(now);
  ++f.places;
  w.counted_ = true;
  // Its revision may have gone meanwhile: then to the one that traffic goes to now.
  const bool there = std::any_of(f.route.split.begin(), f.route.split.end(),
                                 [&](const auto& p) { return p.revision == w.revision_; });
  if (!there && !f.route.split.empty())
    if (const int next = f.split.next(); next != 0) w.revision_ = next;
  line_up(w);
  dispatch(f, now);
}

// Gives back what a granted request holds.
void Dispatcher::release(Waiter& w, Time now) {
  if (!w.upstream_) return;
  FunctionState& f = *w.function_;
  f.integrate(now);
  --w.upstream_->outstanding;
  --f.in_flight;
  w.upstream_->busy += now - w.granted_at_;
  w.upstream_.reset();
}

void Dispatcher::count_end(const Waiter& w, Outcome outcome, uint64_t inferences, Time now) {
  FunctionState& f = *w.function_;
  Counters& c = f.counters;
  switch (outcome) {
    case Outcome::kOk: {
      const Nanos latency = now - w.arrived_;
      ++c.ok;
      c.inferences += std::max<uint64_t>(inferences, 1);
      c.latency.add(latency);
      if (f.route.slo > Nanos(0) && latency > f.route.slo) ++c.late;
      if (!w.upstream_) return;
      ++w.upstream_->answered;
      w.upstream_->inferences += std::max<uint64_t>(inferences, 1);
      const Nanos service = now - w.granted_at_;
      // The shortest, forgotten by a hundredth per answer, so that an old one does not rule.
      f.fastest = std::min(service, f.fastest + f.fastest / 100);
      return;
    }
    case Outcome::kInvalid:
      ++c.invalid;
      return;
    case Outcome::kFailed:
    case Outcome::kBroken:
      ++c.failed;
      return;
    case Outcome::kTimedOut:
      ++c.timed_out;
      return;
    case Outcome::kGone:
      ++c.gone;
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
  if (w.queued_) f.queues[w.revision_].remove(w.ticket_);
  if (w.counted_) --f.places;
  w.queued_ = w.counted_ = false;
  if (w.is_inference) count_end(w, outcome, inferences, now);
  if (w.upstream_ && outcome == Outcome::kOk) w.upstream_->down_for = Nanos(0);
  if (w.upstream_ && outcome == Outcome::kBroken) mark_broken(*w.upstream_, now);
  release(w, now);
  w.function_.reset();
  dispatch(f, now);
}

void Dispatcher::tick(Time now) {
  const std::lock_guard lock(mutex_);
  for (auto& [served, f] : functions_) dispatch(*f, now);
  std::erase_if(leaving_, [](const auto& upstream) { return upstream->outstanding == 0; });
  std::erase_if(functions_, [](const auto& entry) {
    return entry.second->removed && entry.second.use_count() == 1;
  });
}

// Hands waiting requests to instances that can start them. An instance takes a wave of `batch`
// requests when that much of its credit is free: what is given later would wait there, bound.
void Dispatcher::dispatch(FunctionState& f, Time now) {
  for (size_t i = 0; i < f.views.size(); ++i) {
    const InstanceRoute& r = f.route.instances[i];
    const Upstream& u = *f.upstreams[i];
    const int room = r.credit - u.outstanding;
    f.views[i].credit = r.ready && u.down_until <= now ? room / r.batch * r.batch : 0;
    f.views[i].outstanding = u.outstanding;
  }
  for (auto& [revision, queue] : f.queues) {
    std::vector<Waiter*> granted;
    while (!queue.empty()) {
      const auto chosen = f.choose(f.views, revision);
      if (!chosen) break;
      Waiter* w = *queue.pop(now, f.fastest == std::chrono::hours(1) ? Nanos(0) : f.fastest);
      f.integrate(now);
      --f.views[*chosen].credit;
      ++f.views[*chosen].outstanding;
      ++f.upstreams[*chosen]->outstanding;
      --f.places;
      ++f.in_flight;
      w->queued_ = w->counted_ = false;
      w->upstream_ = f.upstreams[*chosen];
      w->granted_at_ = now;
      w->more_ = 0;
      if (w->is_inference) {
        f.counters.cold_starts += w->cold_;
        f.counters.waiting.add(now - w->arrived_);
      }
      w->cold_ = false;
      granted.push_back(w);
    }
    for (size_t a = 0; a < granted.size(); ++a)
      for (size_t b = a + 1; b < granted.size(); ++b)
        if (granted[a]->upstream_ == granted[b]->upstream_) ++granted[a]->more_;
    for (Waiter* w : granted) w->on_granted();
  }
}

std::vector<FunctionStats> Dispatcher::stats(Time now) {
  const std::lock_guard lock(mutex_);
  std::vector<FunctionStats> out;
  for (auto& [served, f] : functions_) {
    if (f->removed) continue;
    f->integrate(now);
    FunctionStats s{.name = f->route.name,
                    .counters = f->counters,
                    .queued = f->places,
                    .in_flight = f->in_flight};
    for (const auto& u : f->upstreams) s.instances.push_back(*u);
    out.push_back(std::move(s));
  }
  return out;
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
