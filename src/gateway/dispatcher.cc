#include "gateway/dispatcher.h"

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "base/secret.h"

namespace sluice::gateway {

using policy::InstanceView;

// The waiting requests of one revision. Those whose bodies stream wait apart, because their turn
// depends on how many of them hold an instance.
struct RevisionQueue {
  policy::DeadlineQueue<Waiter*> kept, streamed;

  policy::DeadlineQueue<Waiter*>& of(const Waiter& w) { return w.streams ? streamed : kept; }
  bool empty() const { return kept.empty() && streamed.empty(); }
  size_t lost = 0;  // of `kept`, when that was last asked
  // Returns the queue whose head goes next. `service`: how long an answer is expected to take.
  policy::DeadlineQueue<Waiter*>& next(bool may_stream, Time now, Nanos service) {
    const bool stream =
        may_stream && !streamed.empty() && streamed.rank(now, service) < kept.rank(now, service);
    return stream ? streamed : kept;
  }
};

struct FunctionState {
  FunctionRoute route;
  const policy::Route* policy = nullptr;
  policy::RouteState routed;  // of that route
  policy::RevisionSplit split;
  std::vector<InstanceView> views;  // beside `upstreams`
  std::vector<std::shared_ptr<Upstream>> upstreams;
  std::map<int, RevisionQueue> queues;  // by revision
  // Requests that hold a place of route.max_queue, and those at an instance. `all` bounds the
  // queue. `load` leaves out questions about the model; it is reported and integrated.
  struct Held {
    int places = 0, in_flight = 0;
  } all, load;
  int streaming = 0;  // of those in flight
  policy::ServiceTime service;
  policy::LateMargin margin;
  Counters counters;
  std::map<int, RevisionStats> revisions;  // of the split, and those of it that still answer
  Time last_arrival{}, integrated_to{};
  bool removed = false;

  void add(int Held::*what, const Waiter& w, int n) {
    all.*what += n;
    if (w.is_inference) load.*what += n;
  }

  void integrate(Time now) {
    if (integrated_to != Time{} && now > integrated_to)
      counters.concurrency_seconds += (load.places + load.in_flight) * seconds(now - integrated_to);
    integrated_to = std::max(integrated_to, now);
  }

  void count_gap(Time now) {
    if (last_arrival != Time{}) {
      const double gap = std::max(0.0, seconds(now - last_arrival));
      ++counters.gaps;
      counters.gap_sum += gap;
      counters.gap_squares += gap * gap;
    }
    last_arrival = now;
  }

  // Takes each instance's current measurements. Its credit is whole batches, and zero while it is
  // down.
  void refresh(Time now) {
    for (size_t i = 0; i < views.size(); ++i) {
      const InstanceRoute& r = route.instances[i];
      const Upstream& u = *upstreams[i];
      const int room = r.credit - u.outstanding;
      views[i].credit = r.ready && u.down_until <= now ? room / r.batch * r.batch : 0;
      views[i].outstanding = u.outstanding;
      views[i].inferences = u.asked;
      views[i].service_rate = u.rate.per_second();
      views[i].last_answer = u.last_answer;
    }
  }

  // Returns the instance that takes a request at the head of its queue. An instance whose credit
  // just came back may pull it.
  std::optional<size_t> instance_for(const Waiter& w, const Upstream* freed, Time now) {
    const policy::RequestView head{w.revision_, w.inferences, w.body_bytes, w.deadline_};
    if (freed != nullptr && policy->pull != nullptr)
      for (size_t i = 0; i < views.size(); ++i)
        if (upstreams[i].get() == freed && views[i].revision == head.revision &&
            views[i].credit > 0 && policy->pull(head, views, i, routed, now))
          return i;
    return policy->choose(head, views, routed, now);
  }

  bool any_waits() const {
    return std::ranges::any_of(queues, [](const auto& entry) { return !entry.second.empty(); });
  }

  bool has_credit(int revision) const {
    return std::ranges::any_of(
        views, [&](const InstanceView& v) { return v.revision == revision && v.credit > 0; });
  }

  // As a request with so many before it sees them. It runs with those that it is behind in its batch
  // at least, and with as many as there are on average.
  std::vector<policy::ServerView> servers(int revision, int ahead, Time now) const {
    std::vector<policy::ServerView> out;
    for (size_t i = 0; i < views.size(); ++i) {
      const InstanceRoute& r = route.instances[i];
      const Upstream& u = *upstreams[i];
      if (r.revision != revision || !r.ready) continue;
      const policy::ServiceTime& takes = u.service.known() ? u.service : service;
      const int own = r.credit - r.batch + ahead % r.batch + 1;
      // The oldest of several running batches ends first; in turn, one each takes ÷ batches.
      const Nanos turn = takes.of(u.together) / std::max(r.credit / r.batch, 1);
      Time done = u.outstanding > 0 ? u.last_grant + turn : now;
      if (done < now) done = now + (now - done);  // overdue: as much again
      out.push_back({.slots = r.credit,
                     .free = views[i].credit,
                     .batch = r.batch,
                     .full = takes.of(r.credit),
                     .next = std::max(takes.of(own), takes.mean()),
                     .free_at = std::max(done, u.down_until)});
    }
    return out;
  }

  // Returns whether a request with so many before it joins a batch that starts next, where batches
  // are not full and as fast if they are fuller.
  bool fills_up(int revision, int ahead) const {
    int places = 0, batch = 1;
    for (const InstanceRoute& r : route.instances) {
      if (r.revision != revision || !r.ready) continue;
      places += r.batch;
      batch = std::max(batch, r.batch);
    }
    return batch > 1 && ahead < places && service.mean_batch() < 0.95 * batch &&
           2 * service.of(1) > service.of(batch);
  }

  // A request that is lost while it waits was admitted and will be late. It goes behind all others,
  // so its end would tell too late.
  void learn_from_lost(RevisionQueue& queue, size_t lost, Time now) {
    for (size_t i = queue.lost; i < lost; ++i) margin.ended(true, objective(), now);
    queue.lost = lost;
  }

  // Streams may hold all batch slots of its ready instances but one.
  bool may_stream() const {
    int slots = 0;
    for (const InstanceRoute& r : route.instances) slots += r.ready ? r.credit / r.batch : 0;
    return streaming < std::max(1, slots - 1);
  }

  bool splits_to(int revision) const {
    return std::ranges::any_of(route.split, [&](const auto& p) { return p.revision == revision; });
  }
  int next_revision() {
    const int next = split.next();
    return next != 0 || route.instances.empty() ? next : route.instances.front().revision;
  }
  // Returns the revision with most of the traffic, of equal ones the first.
  int main_revision() const {
    const auto most = std::ranges::max_element(route.split, {}, &policy::RevisionPercent::percent);
    if (most != route.split.end()) return most->revision;
    return route.instances.empty() ? 0 : route.instances.front().revision;
  }
  RevisionStats& stats_of(int revision) {
    return revisions[revision != 0 ? revision : main_revision()];
  }
  std::string versions() const {
    std::string text;
    for (const policy::RevisionPercent& p : route.split)
      if (p.percent > 0) text += (text.empty() ? "" : ",") + std::to_string(p.revision);
    return text;
  }
  Nanos objective() const { return route.slo > Nanos(0) ? route.slo : route.timeout; }

  bool any_ready(int revision) const {
    for (size_t i = 0; i < views.size(); ++i)
      if (views[i].revision == revision && route.instances[i].ready) return true;
    return false;
  }
  // Returns why no instance will take a request of `revision`; empty if one is ready or may start.
  std::string_view unserved(int revision) const {
    if (removed) return "the function was deleted meanwhile";
    if (route.unavailable.empty() || any_ready(revision)) return {};
    return route.unavailable;
  }
};

namespace {

// Clients of Triton know a missing model by these words.
constexpr char kUnknownModel[] = "Request for unknown model: ";

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

Dispatcher::Entry Dispatcher::find(Waiter& w, std::string_view served, int revision,
                                   std::string_view token) {
  const std::lock_guard lock(mutex_);
  w.entered_ = w.displaced_ = false;
  w.turned_away_.clear();
  w.compute.reset();
  const auto found = functions_.find(served);
  if (found == functions_.end() || found->second->removed)
    return {Refusal::kUnknown, kUnknownModel + ("'" + std::string(served) + "' is not found")};
  FunctionState& f = *found->second;
  const std::string& wanted = f.route.token.empty() ? platform_token_ : f.route.token;
  if (!wanted.empty() && !same_secret(token, wanted))
    return {Refusal::kDenied, "this function wants a bearer token"};
  if (revision != 0 && !f.splits_to(revision)) {
    f.counters.requests += w.is_inference;
    f.counters.invalid += w.is_inference;
    return {Refusal::kUnknownRevision, kUnknownModel +
                                           ("'" + std::string(served) + "' has no version ") +
                                           std::to_string(revision)};
  }
  w.function_ = found->second;
  w.revision_ = revision;
  return {.timeout = f.route.timeout,
          .versions = w.is_inference ? std::string() : f.versions(),
          .token_is_ours = !wanted.empty()};
}

Dispatcher::Entry Dispatcher::enter(Waiter& w, Time arrived, Time now, bool body_to_come) {
  const std::lock_guard lock(mutex_);
  FunctionState& f = *w.function_;
  if (f.removed) {
    w.function_.reset();
    return {Refusal::kUnavailable, std::string(f.unserved(0))};
  }
  if (body_to_come && would_admit(f, w, now)) return {};
  f.integrate(now);
  if (w.is_inference) count_arrival(f, w, now);
  w.entered_ = true;
  if (w.revision_ == 0 || !f.splits_to(w.revision_))
    w.revision_ = w.is_inference ? f.next_revision() : f.main_revision();
  w.arrived_ = arrived;
  w.deadline_ = std::max(arrived, now - f.objective() / 2) + f.objective();
  Entry entry = admit(f, w, now);
  if (entry.refusal != Refusal::kNone) {
    if (entry.refusal == Refusal::kLate || entry.refusal == Refusal::kFull)
      refused(f, w, entry.retry_after, now);
    if (w.is_inference)
      count_end(w, entry.refusal == Refusal::kUnavailable ? Outcome::kFailed : Outcome::kShed, 0,
                now);
    w.function_.reset();
    return entry;
  }
  f.add(&FunctionState::Held::places, w, 1);
  w.counted_ = true;
  w.upstream_.reset();
  w.cold_ = !f.any_ready(w.revision_);
  line_up(w);
  dispatch(f, now);
  return entry;
}

bool Dispatcher::repeats(const FunctionState& f, const Waiter& w, Time now) {
  return w.refused_by_ == &f && now < w.again_from_ && w.content() == w.refused_content_;
}

void Dispatcher::count_arrival(FunctionState& f, const Waiter& w, Time now) {
  ++f.counters.requests;
  const bool again = repeats(f, w, now);
  f.counters.repeated += again;
  if (!again) f.count_gap(now);
}

void Dispatcher::refused(FunctionState& f, Waiter& w, Nanos retry_after, Time now) {
  if (repeats(f, w, now)) return;
  if (w.is_inference) f.counters.concurrency_seconds += seconds(f.route.slo);
  w.refused_by_ = &f;
  w.refused_content_ = w.content();
  w.again_from_ = now + retry_after;
}

Dispatcher::Entry Dispatcher::admit(FunctionState& f, Waiter& w, Time now) {
  constexpr Nanos kSoonest = Seconds(1), kLatest = Seconds(60);
  w.waited_ = false;
  if (const std::string_view why = f.unserved(w.revision_); !why.empty())
    return {Refusal::kUnavailable, std::string(why)};
  // A question starts no instance, so it would wait in vain.
  if (!w.is_inference && !f.any_ready(w.revision_))
    return {Refusal::kUnavailable,
            "no instance of '" + served_name(f.route.name) + "' is ready; questions start none"};
  RevisionQueue& queue = f.queues[w.revision_];
  f.refresh(now);
  // A place is for waiting: a request that starts at once needs none, and a queue of zero serves.
  if (queue.empty() && f.has_credit(w.revision_) && (!w.streams || f.may_stream())) return {};
  auto& mine = queue.of(w);
  const int waiting = static_cast<int>(mine.size());
  const size_t lost = mine.lost(now, f.service.mean());
  if (!w.streams) f.learn_from_lost(queue, lost, now);
  const int ahead = waiting - static_cast<int>(lost);
  const std::vector<policy::ServerView> servers = f.servers(w.revision_, ahead, now);
  const bool fills_up = f.fills_up(w.revision_, ahead);
  const auto verdict = policy::admit({now, now + f.objective(), ahead, fills_up}, servers,
                                     f.margin.at(now), f.route.slo);
  if (!f.route.admit_all && w.is_inference && !verdict.admitted)
    return {.refusal = Refusal::kLate,
            .why = "'" + served_name(f.route.name) + "' cannot answer in time (" +
                   std::to_string(f.all.places) + " waiting)",
            .retry_after = std::clamp<Nanos>(verdict.retry_after, kSoonest, kLatest)};
  w.waited_ = !servers.empty() && w.is_inference && !w.streams && !fills_up;
  const int places = w.streams ? std::max(f.route.max_queue / 4, 1) : f.route.max_queue;
  const bool too_many_stream = w.streams && waiting >= places;
  const bool full = f.all.places >= f.route.max_queue;
  if (!too_many_stream && (!full || (!f.route.admit_all && make_place(f, w, now)))) return {};
  return {.refusal = Refusal::kFull,
          .why = "the queue of '" + served_name(f.route.name) + "' is full (" +
                 std::to_string(places) + " waiting)",
          .retry_after = std::clamp<Nanos>(policy::time_for(servers, waiting), kSoonest, kLatest)};
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

// Decides for the revision that the request then keeps.
bool Dispatcher::would_admit(FunctionState& f, Waiter& w, Time now) {
  if (w.revision_ == 0 || !f.splits_to(w.revision_))
    w.revision_ = w.is_inference ? f.next_revision() : f.main_revision();
  w.asks_ = true;
  const bool admitted = admit(f, w, now).refusal == Refusal::kNone;
  w.asks_ = false;
  return admitted;
}

// Returns whether a full queue has a place for it.
bool Dispatcher::make_place(FunctionState& f, const Waiter& w, Time now) {
  if (w.asks_) return f.queues[w.revision_].kept.lost(now, f.service.mean()) > 0;
  return displace(f, w.revision_, now);
}

// Sheds the oldest lost request in favour of one that can be in time.
bool Dispatcher::displace(FunctionState& f, int revision, Time now) {
  const auto lost = f.queues[revision].kept.take_lost(now, f.service.mean());
  if (!lost) return false;
  Waiter& w = **lost;
  f.add(&FunctionState::Held::places, w, -1);
  w.queued_ = w.counted_ = false;
  w.displaced_ = true;
  w.on_granted();
  return true;
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
      r.last = now;
      r.model.succeeded(std::max<uint64_t>(inferences, 1), latency,
                        w.granted_at_ - w.arrived_ + report.queue, report);
      ++c.ok;
      c.inferences += std::max<uint64_t>(inferences, 1);
      c.latency.add(latency);
      if (f.route.slo > Nanos(0) && latency > f.route.slo) ++c.late;
      if (!w.upstream_) return;
      ++w.upstream_->answered;
      w.upstream_->inferences += std::max<uint64_t>(inferences, 1);
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
      const Nanos service = f.service.mean();
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
