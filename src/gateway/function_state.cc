#include "gateway/function_state.h"

namespace sluice::gateway {

void FunctionState::count_gap(Time now) {
  if (last_arrival != Time{}) {
    const double gap = std::max(0.0, seconds(now - last_arrival));
    ++counters.gaps;
    counters.gap_sum += gap;
    counters.gap_squares += gap * gap;
  }
  last_arrival = now;
}

void FunctionState::refresh(Time now) {
  for (size_t i = 0; i < views.size(); ++i) {
    const InstanceRoute& r = route.instances[i];
    const Upstream& u = *upstreams[i];
    const int room = r.credit - u.outstanding;
    views[i].credit = r.ready && u.down_until <= now ? room / r.batch * r.batch : 0;
    views[i].outstanding = u.outstanding;
    views[i].inferences = u.asked;
    views[i].service_rate = u.rate.per_second();
    views[i].late = u.late_lately.value();
    views[i].last_answer = u.last_answer;
  }
}

std::optional<size_t> FunctionState::instance_for(const Waiter& w, const Upstream* freed,
                                                  Time now) {
  const policy::RequestView head{w.revision_, w.inferences, w.body_bytes, w.deadline_};
  if (freed != nullptr && policy->pull != nullptr)
    for (size_t i = 0; i < views.size(); ++i)
      if (upstreams[i].get() == freed && views[i].revision == head.revision &&
          views[i].credit > 0 && policy->pull(head, views, i, routed, now))
        return i;
  return policy->choose(head, views, routed, now);
}

std::vector<policy::ServerView> FunctionState::servers(int revision, int ahead, Time now) const {
  std::vector<policy::ServerView> out;
  for (size_t i = 0; i < views.size(); ++i) {
    const InstanceRoute& r = route.instances[i];
    const Upstream& u = *upstreams[i];
    if (r.revision != revision || !r.ready) continue;
    const policy::ServiceTime& takes = u.service.known() ? u.service : service;
    const int own = r.credit - r.batch + ahead % r.batch + 1;
    // The oldest of several running batches ends first, and one each takes ÷ batches.
    const Nanos between = takes.of(u.together) / std::max(r.credit / r.batch, 1);
    Time done = u.outstanding > 0 ? u.last_grant + between : now;
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

bool FunctionState::fills_up(int revision, int ahead) const {
  int places = 0, batch = 1;
  for (const InstanceRoute& r : route.instances) {
    if (r.revision != revision || !r.ready) continue;
    places += r.batch;
    batch = std::max(batch, r.batch);
  }
  return batch > 1 && ahead < places && service.mean_batch() < 0.95 * batch &&
         2 * service.of(1) > service.of(batch);
}

bool FunctionState::may_stream() const {
  int slots = 0;
  for (const InstanceRoute& r : route.instances) slots += r.ready ? r.credit / r.batch : 0;
  return streaming < std::max(1, slots - 1);
}

int FunctionState::main_revision() const {
  const auto most = std::ranges::max_element(route.split, {}, &policy::RevisionPercent::percent);
  if (most != route.split.end()) return most->revision;
  return route.instances.empty() ? 0 : route.instances.front().revision;
}

std::string FunctionState::versions() const {
  std::string text;
  for (const policy::RevisionPercent& p : route.split)
    if (p.percent > 0) text += (text.empty() ? "" : ",") + std::to_string(p.revision);
  return text;
}

std::string_view FunctionState::unserved(int revision) const {
  if (removed) return "the function was deleted meanwhile";
  if (route.unavailable.empty() || any_ready(revision)) return {};
  return route.unavailable;
}
}  // namespace sluice::gateway
