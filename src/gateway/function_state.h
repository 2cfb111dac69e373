// What the dispatcher keeps of one function: its route, its instances with their credit and their
// measurements, the queues of its revisions, and its counters. For the sources of the dispatcher
// alone (dispatcher.h), whose mutex guards it.
#pragma once

#include <algorithm>

#include "gateway/dispatcher.h"

namespace sluice::gateway {

using policy::InstanceView;

// The waiting requests of one revision. Those whose bodies stream wait apart, because they are
// granted only while few of them hold an instance.
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

  void count_gap(Time now);

  // Takes each instance's current measurements. Its credit is whole batches, and zero while it is
  // down.
  void refresh(Time now);

  // Returns the instance that takes a request at the head of its queue. An instance whose credit
  // just came back may pull it.
  std::optional<size_t> instance_for(const Waiter& w, const Upstream* freed, Time now);

  bool any_waits() const {
    return std::ranges::any_of(queues, [](const auto& entry) { return !entry.second.empty(); });
  }

  bool has_credit(int revision) const {
    return std::ranges::any_of(
        views, [&](const InstanceView& v) { return v.revision == revision && v.credit > 0; });
  }

  // As a request with so many before it sees them. It runs with those before it in its batch
  // at least, and with as many as there are on average.
  std::vector<policy::ServerView> servers(int revision, int ahead, Time now) const;

  // Returns whether a request with so many before it joins a batch that starts next, where batches
  // are not full and as fast if they are fuller.
  bool fills_up(int revision, int ahead) const;

  // A request that is lost while it waits was admitted and will be late. It goes behind all others,
  // so its end would tell too late.
  void learn_from_lost(RevisionQueue& queue, size_t lost, Time now) {
    for (size_t i = queue.lost; i < lost; ++i) margin.ended(true, objective(), now);
    queue.lost = lost;
  }

  // Streams may hold all batch slots of its ready instances but one.
  bool may_stream() const;

  bool splits_to(int revision) const {
    return std::ranges::any_of(route.split, [&](const auto& p) { return p.revision == revision; });
  }
  int next_revision() {
    const int next = split.next();
    return next != 0 || route.instances.empty() ? next : route.instances.front().revision;
  }
  // Returns the revision with most of the traffic, of equal ones the first.
  int main_revision() const;
  RevisionStats& stats_of(int revision) {
    return revisions[revision != 0 ? revision : main_revision()];
  }
  std::string versions() const;
  Nanos objective() const { return route.slo > Nanos(0) ? route.slo : route.timeout; }
  // Returns how long before its deadline a waiting request is lost: the time of an answer. Where
  // answers take longer than the objective, all would be lost, and a queue of lost requests is
  // never too long; then a request is lost when it times out.
  Nanos lost_before() const {
    const Nanos mean = service.mean();
    return mean <= objective() ? mean : -route.timeout;
  }

  bool any_ready(int revision) const {
    for (size_t i = 0; i < views.size(); ++i)
      if (views[i].revision == revision && route.instances[i].ready) return true;
    return false;
  }
  // Returns why no instance will take a request of `revision`; empty if one is ready or may start.
  std::string_view unserved(int revision) const;
};

}  // namespace sluice::gateway
