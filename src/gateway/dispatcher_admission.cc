// How a request enters: it finds its function, is counted as demand, and is admitted to a queue or
// refused (routing/admission.h).
#include <algorithm>

#include "base/secret.h"
#include "gateway/function_state.h"

namespace sluice::gateway {
namespace {

// Clients of Triton know a missing model by these words.
constexpr char kUnknownModel[] = "Request for unknown model: ";

}  // namespace

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
  if (w.is_http != f.route.http)
    return {Refusal::kUnknown, "'" + std::string(served) + "' is asked below " +
                                   (f.route.http ? "/functions/" : "/v2/models/") +
                                   std::string(served) + "/"};
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
  const size_t lost = mine.lost(now, f.lost_before());
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
  if (w.asks_) return f.queues[w.revision_].kept.lost(now, f.lost_before()) > 0;
  return displace(f, w.revision_, now);
}

// Sheds the oldest lost request in favour of one that can be in time.
bool Dispatcher::displace(FunctionState& f, int revision, Time now) {
  const auto lost = f.queues[revision].kept.take_lost(now, f.lost_before());
  if (!lost) return false;
  Waiter& w = **lost;
  f.add(&FunctionState::Held::places, w, -1);
  w.queued_ = w.counted_ = false;
  w.displaced_ = true;
  w.on_granted();
  return true;
}

}  // namespace sluice::gateway
