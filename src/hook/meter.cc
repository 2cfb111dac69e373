#include "hook/meter.h"

#include <sched.h>

#include "hook/blocking_streams.h"
#include "hook/captures.h"

SLUICE_DRIVER(cuCtxGetCurrent);
SLUICE_DRIVER(cuStreamQuery);

namespace sluice::hook {
namespace {

constexpr uint64_t kMiB = 1 << 20;
constexpr uint64_t kLeastBytes = 64 << 10;  // a smaller copy says nothing about bandwidth
constexpr uint64_t kUnknownMiB = 100'000;   // 10 GB/s, until a copy was timed
constexpr uint64_t kLeastNs = 1;
constexpr uint64_t kNapNs = 25'000, kLongNapNs = 500'000;
constexpr uint64_t kLaunchNs = 3'000;  // no launch takes the device longer to hear of
constexpr uint64_t kRarely = 4000;     // timings may take one part in so many of a thread's time
constexpr uint64_t kMostSpentNs = 10'000;    // on one; more, and the thread was off the processor
constexpr uint64_t kDrySlackNs = 1'000'000;  // what cannot be looked at has run by then

uint64_t smaller(uint64_t a, uint64_t b) {
  return a < b ? a : b;
}
uint64_t larger(uint64_t a, uint64_t b) {
  return a > b ? a : b;
}

// Behind several units: exact where the stream had work all the time.
Mark several(bool exact) {
  Mark mark{};
  mark.exact = exact;
  return mark;
}

Mark by_the_clock(uint64_t position, uint64_t now) {
  Mark mark{};
  mark.position = position;
  mark.recorded_ns = now;
  return mark;
}

// The caller's errno stays.
void sleep_ns(uint64_t ns) {
  const int saved_errno = errno;
  const timespec nap{0, static_cast<long>(ns)};
  syscall(SYS_nanosleep, &nap, nullptr);
  errno = saved_errno;
}

}  // namespace

// ---- begin and end ------------------------------------------------------------------------------

Unit Meter::begin(sluice_attachment* at, uint32_t thread, const Work& work) {
  Unit unit{};
  if (!lock()) return unit;
  const uint32_t context = context_of_thread();
  const uint64_t now = sluice_clock(CLOCK_MONOTONIC);
  Lane* lane = lane_for(thread, work.stream, context, now);
  if (lane == nullptr) {
    unlock();
    return unit;
  }
  // It may have stood at the gate since the last look, and its stream run dry.
  if (lane->context == context && context != kContexts) poll_lane(*lane, now);
  const bool timeable = takes_events(*lane, context);
  const uint64_t cost = cost_of(work, context);
  unit = {.lane = lane,
          .cost_ns = cost,
          .begun_ns = now,
          .spent_ns = 0,
          .timed = timeable && (work.bytes == 0 || work.bytes >= kLeastBytes) &&
                   (costs_.expected(work.key) == 0 || now >= next_timing_ns_),
          .followed = timeable,
          .dense = lane->at_work()};
  if (lanes_.in_flight_ns() == 0) progress_ns_ = now;
  if (lane->unfinished_ns() == 0) lane->reached_ns = now;
  if (unit.timed && (lane->open_ns() != 0 || !lane->at_work()))
    unit.timed = follow(*lane, several(unit.dense), now);
  if (unit.timed) {
    unit.begun_ns = sluice_clock(CLOCK_MONOTONIC);
    unit.spent_ns = unit.begun_ns - now;
  }
  if (lane->open_ns() == 0) {
    lane->unit = work.key;
    lane->unit_end = lane->done() + cost;
  }
  lane->submit(cost);
  if (!unit.timed && lane->open_ns() < lane->quantum_ns / 2) unit.followed = false;
  report(at, now);
  unlock();
  return unit;
}

// Null: all are taken. One that is new, or empty and in another context now, begins here.
Lane* Meter::lane_for(uint32_t thread, CUstream stream, uint32_t context, uint64_t now) {
  Lane* lane = lanes_.claim(thread, stream);
  if (lane == nullptr) return nullptr;
  if (lane->touched_ns == 0 || (lane->context != context && lane->unfinished_ns() == 0)) {
    lane->context = context;
    lane->reached_ns = lane->marked_at_ns = lane->touched_ns = now;
  }
  return lane;
}

void Meter::end(sluice_attachment* at, const Work& work, const Unit& unit, bool launched) {
  if (unit.lane == nullptr || !lock()) return;
  Lane& lane = *unit.lane;
  const uint64_t now = sluice_clock(CLOCK_MONOTONIC);
  lane.touched_ns = now;
  if (!launched)
    lane.submit(-unit.cost_ns);
  else if (unit.followed && !unit.timed && clock_will_do(at, lane, now))
    lane.push(by_the_clock(lane.done(), now));
  else if (unit.followed && takes_events(lane, lane.context))
    follow_unit(lane, work, unit, now);
  give_leave(at, lane);
  report(at, now);
  unlock();
}

// An event behind the unit, which may say what it took.
void Meter::follow_unit(Lane& lane, const Work& work, const Unit& unit, uint64_t now) {
  Mark mark = several(unit.dense);
  mark.bytes = work.bytes;
  if (lane.only_unit() != 0 && lane.at_work() && (unit.timed || unit.dense)) {
    const bool dry = unit.timed && !events_[lane.context].pending(lane.last().event);
    const uint64_t gap = dry ? now - unit.begun_ns : 0;
    // Its thread was off the processor in the middle of it: when the device heard of the unit, and
    // how long that took, nobody knows.
    const bool interrupted = gap > 2 * kLaunchNs && costs_.expected(lane.only_unit()) != 0;
    mark.unit = interrupted ? 0 : lane.only_unit();
    mark.exact = !interrupted;
    mark.gap_ns = smaller(gap, kLaunchNs);
    mark.beside_ns = unfinished_beside(lane);
  }
  follow(lane, mark, now);
  if (!unit.timed) return;
  const uint64_t then = sluice_clock(CLOCK_MONOTONIC);
  const uint64_t spent = smaller(unit.spent_ns + then - now, kMostSpentNs);
  next_timing_ns_ = then + kRarely * 2 * spent;  // looking at them takes as long again
}

// It stands for several units, of a stream whose work has been done as it came and comes slower
// than it is done; and nobody keeps the device from it.
bool Meter::clock_will_do(const sluice_attachment* at, const Lane& lane, uint64_t now) const {
  const bool contended =
      (__atomic_load_n(&at->permit->flags, __ATOMIC_RELAXED) & SLUICE_CONTENDED) != 0;
  return lane.dry && !lane.at_work() && lane.only_unit() == 0 && lane.marks < Lane::kMarks &&
         !contended && lane.marked_at_ns + lane.open_ns() <= now &&
         lane.unseen_ns + lane.open_ns() <= kUnseenNs &&
         lanes_.in_flight_ns() == lane.in_flight_ns();
}

bool Meter::waited(sluice_attachment* at, uint32_t thread, CUstream stream) {
  if (!lock()) return false;
  const uint32_t context = context_of_thread();
  const uint64_t now = sluice_clock(CLOCK_MONOTONIC);
  poll(context, now);
  lanes_.for_each([&](Lane& lane) {
    if (lane.owner != thread || (stream != nullptr && lane.stream != stream)) return;
    if (stream == nullptr && lane.context != context) return;
    if (!takes_events(lane, context)) learn_by_waiting(lane, now);
    settle(lane, now);
  });
  const bool none = unfinished_of(thread) == 0;
  report(at, now);
  unlock();
  return none;
}

bool Meter::copied(sluice_attachment* at, uint32_t thread, const Work& work, uint64_t begun_ns) {
  if (!lock()) return false;
  const uint32_t context = context_of_thread();
  const uint64_t now = sluice_clock(CLOCK_MONOTONIC);
  poll(context, now);
  if (Lane* lane = lane_for(thread, work.stream, context, begun_ns)) {
    const bool alone = lane->unfinished_ns() == 0;
    if (alone) lane->reached_ns = begun_ns;
    if (alone) learn(work.key, work.bytes, now - begun_ns);
    lane->submit(cost_of(work, context));
    settle(*lane, now);
  }
  const bool none = unfinished_of(thread) == 0;
  report(at, now);
  unlock();
  return none;
}

bool Meter::looked(sluice_attachment* at, uint32_t thread) {
  if (!lock()) return false;
  const uint64_t now = sluice_clock(CLOCK_MONOTONIC);
  poll(context_of_thread(), now);
  lanes_.for_each([&](Lane& lane) {
    if (lane.owner == thread && lane.marks == 0 && now - lane.touched_ns >= lane.open_ns())
      settle(lane, now);
  });
  const bool none = unfinished_of(thread) == 0;
  report(at, now);
  unlock();
  return none;
}

void Meter::forget_context(CUcontext context) {
  forget_contexts([=](const ContextEvents& events) { return events.context() == context; });
}
void Meter::forget_all_contexts() {
  forget_contexts([](const ContextEvents&) { return true; });
}

template <typename Which>
void Meter::forget_contexts(Which&& which) {
  if (!lock()) return;
  const uint64_t now = sluice_clock(CLOCK_MONOTONIC);
  for (uint32_t i = 0; i < kContexts; ++i) {
    if (!which(events_[i])) continue;
    lanes_.for_each([&](Lane& lane) {
      if (lane.context == i && lane.unfinished_ns() != 0) settle(lane, now);
    });
    events_[i].become(nullptr, 0);
  }
  unlock();
}

void Meter::forget_unit(uint64_t key) {
  if (!lock()) return;
  costs_.forget(key);
  unlock();
}

// ---- in flight ----------------------------------------------------------------------------------

// How long until the unit fits, as far as can be told; 0: it does. What runs counts with what is
// left of it by its expected time, but against the grant as a whole: it will be charged. Units
// longer than the bound follow one that is nearly done.
uint64_t Meter::too_early_ns(const Lane& lane, uint64_t cost, uint64_t rest, uint64_t now) const {
  const uint64_t all = lanes_.in_flight_ns();
  if (all == 0) return 0;
  const uint64_t head = lane.marks != 0 ? lane.first().position - lane.finished : 0;
  const uint64_t run = smaller(all, smaller(head, now - smaller(progress_ns_, now)));
  const uint64_t left = all - run;
  const bool granted = all + cost <= rest || (left <= kNearlyDoneNs && all < rest);
  if (granted && (left + cost <= kInFlightNs || left <= kNearlyDoneNs)) return 0;
  const uint64_t enough = larger(kNearlyDoneNs, kInFlightNs - smaller(kInFlightNs, cost));
  return larger(granted && left > enough ? left - enough : left, 1);
}

bool Meter::make_room(sluice_attachment* at, uint32_t thread, const Work& work) {
  const uint64_t since = sluice_clock(CLOCK_MONOTONIC);
  while (lock()) {
    const uint64_t now = sluice_clock(CLOCK_MONOTONIC);
    const uint32_t context = context_of_thread();
    Lane* lane = lane_for(thread, work.stream, context, now);
    const uint64_t wait = lane != nullptr ? wait_for(at, *lane, work, context, now) : 0;
    const bool patient = given_up_ns_ == 0 || given_up_ns_ != progress_ns_;
    const bool long_since = now - larger(since, smaller(progress_ns_, now)) > kPatienceNs;
    if (wait != 0 && patient && long_since) given_up_ns_ = progress_ns_ = now;
    report(at, now);
    const bool spent = sluice_grant_rest(at) == 0;
    unlock();
    if (wait == 0 || !patient || long_since) return !spent;
    sleep_ns(larger(kNapNs, smaller(wait / 2, kLongNapNs)));
  }
  return true;
}

// Looks what is finished, and how long until the unit fits. Takes back what leave others have
// before it has anybody wait, and sees to it that the lane's end will be seen.
uint64_t Meter::wait_for(sluice_attachment* at, Lane& lane, const Work& work, uint32_t context,
                         uint64_t now) {
  const bool had_marks = lane.marks != 0;
  poll(context, now);
  if (lane.marks != 0 || lane.quantum_ns == 0)
    lane.quantum_ns = kInFlightNs / 4;
  else if (had_marks)  // it ran dry: the thread is the slower one
    lane.quantum_ns = smaller(2 * lane.quantum_ns, kInFlightNs / 2);
  lane.allow(0);
  const uint64_t cost = cost_of(work, context);
  const uint64_t rest = sluice_grant_rest(at);
  if (too_early_ns(lane, cost, rest, now) == 0) return 0;
  lanes_.for_each([](Lane& other) { other.allow(0); });
  const uint64_t wait = too_early_ns(lane, cost, rest, now);
  if (wait == 0) return 0;
  watch(lane, context, now);
  return wait;
}

// Sees to it that the end of what the lane has submitted is seen, as one of the next looks. Its
// stream is one that a call is just being made for: others may have been destroyed.
void Meter::watch(Lane& lane, uint32_t context, uint64_t now) {
  if (takes_events(lane, context)) {
    if (lane.open_ns() != 0 || !lane.at_work()) follow(lane, several(lane.at_work()), now);
  } else if (context != kContexts && driver_cuStreamQuery(lane.stream) != CUDA_ERROR_NOT_READY) {
    learn_by_waiting(lane, now);
    settle(lane, now);
  }
}

// Where nothing times a unit, how long it was waited for says at most how long it took.
void Meter::learn_by_waiting(const Lane& lane, uint64_t now) {
  if (lane.only_unit() != 0)
    costs_.learn(lane.only_unit(), smaller(now - lane.touched_ns, kInFlightNs));
}

void Meter::drain(sluice_attachment* at, uint32_t thread, CUstream stream) {
  const uint64_t since = sluice_clock(CLOCK_MONOTONIC);
  uint64_t first = 0;
  while (lock()) {
    const uint64_t now = sluice_clock(CLOCK_MONOTONIC);
    const uint32_t context = context_of_thread();
    poll(context, now);
    if (Lane* lane = lane_for(thread, stream, context, now))
      if (lane->unfinished_ns() != 0) watch(*lane, context, now);
    const uint64_t left = unfinished_of(thread);
    report(at, now);
    unlock();
    if (first == 0) first = 2 * left + kDrySlackNs;
    if (left == 0 || now - since > first || (sluice_seq(at->permit) & 1u) == 0) return;
    sleep_ns(larger(kNapNs, smaller(left / 2, kLongNapNs)));
  }
}

void Meter::give_leave(sluice_attachment* at, Lane& lane) {
  uint64_t others = 0;
  lanes_.for_each([&](const Lane& other) {
    if (other.owner != lane.owner) others += other.in_flight_ns();
  });
  lane.allow(0);
  const uint64_t all = lanes_.in_flight_ns();
  const uint64_t bound = smaller(kInFlightNs, sluice_grant_rest(at));
  const uint64_t room = bound > all ? bound - all : 0;
  lane.allow(smaller(lane.quantum_ns, others == 0 ? room : room / 2));
}

// Copies cost by the byte. A kernel or graph that nothing is known of fills the bound, where its
// end will be seen.
uint64_t Meter::cost_of(const Work& work, uint32_t context) const {
  constexpr uint64_t kGuessNs = 100'000;
  const uint64_t known = costs_.guess(work.key);
  if (work.bytes != 0) {
    const uint64_t per_mib = known != 0 ? known : kUnknownMiB;
    return larger(kLeastNs, static_cast<uint64_t>(static_cast<double>(work.bytes) *
                                                  static_cast<double>(per_mib) / kMiB));
  }
  return known != 0 ? known : context != kContexts ? kInFlightNs : kGuessNs;
}

uint64_t Meter::unfinished_beside(const Lane& lane) {
  uint64_t sum = 0;
  lanes_.for_each([&](const Lane& other) { sum += &other != &lane ? other.unfinished_ns() : 0; });
  return sum;
}

// Takes back its leave, too.
uint64_t Meter::unfinished_of(uint32_t thread) {
  uint64_t sum = 0;
  lanes_.for_each([&](Lane& lane) {
    if (lane.owner != thread) return;
    lane.allow(0);
    sum += lane.unfinished_ns();
  });
  return sum;
}

// ---- what is finished ---------------------------------------------------------------------------

// The end of a lane without a mark is taken for over after a while. Where work that came later, in
// other streams, is known to have run, the lane's ran before its end: in time that is counted
// already, as far as there is no other.
void Meter::poll(uint32_t context, uint64_t now) {
  lanes_.for_each([&](Lane& lane) {
    const bool lookable = lane.context == context && context != kContexts;
    if (lookable) poll_lane(lane, now);
    const uint64_t left = lane.in_flight_ns();
    const uint64_t later = busy_time_.known_until();
    const bool passed = lane.marks == 0 && takes_events(lane, context) &&
                        later > larger(lane.touched_ns, lane.reached_ns);
    const uint64_t patience = passed ? 0 : lane.marks == 0 ? kDrySlackNs : 100 * kDrySlackNs;
    if (left != 0 && (lane.marks == 0 || !lookable) && now > lane.touched_ns &&
        now - lane.touched_ns > 2 * left + patience)
      settle(lane, passed ? later : now);
  });
}

void Meter::poll_lane(Lane& lane, uint64_t now) {
  while (lane.marks != 0) {
    const Mark mark = lane.first();
    uint64_t at = lane.due_ns();
    if (mark.event != nullptr) {
      const auto state = events_[lane.context].look(mark.event, mark.recorded_ns, &at);
      if (state == ContextEvents::State::kPending) return;
      if (state == ContextEvents::State::kLost) return settle(lane, now);
      lane.dry = at < mark.recorded_ns + kDryNs;
    } else if (at > now) {
      return;
    }
    lane.pop();
    reach(lane, mark, at);
    progress_ns_ = now;
  }
}

void Meter::reach(Lane& lane, const Mark& mark, uint64_t at) {
  const uint64_t expected = mark.position - lane.finished;
  const uint64_t span = at > lane.reached_ns ? at - lane.reached_ns : 0;
  const uint64_t took = span > mark.gap_ns ? span - mark.gap_ns : 0;
  busy_ns_ += mark.exact ? busy_time_.cover(at - took, at)
                         : busy_time_.place(lane.reached_ns, at, expected);
  if (mark.exact && mark.unit != 0) {
    longest_ns_ = larger(longest_ns_, took);
    if (mark.bytes != 0)
      learn(mark.unit, mark.bytes, took);
    else
      costs_.learn_beside(mark.unit, larger(took, kLeastNs), mark.beside_ns);
  }
  lane.finished = mark.position;
  lane.reached_ns = at;
}

void Meter::learn(uint64_t key, uint64_t bytes, uint64_t ns) {
  if (bytes == 0)
    costs_.learn(key, larger(ns, kLeastNs));
  else if (bytes >= kLeastBytes)
    costs_.learn(
        key, static_cast<uint64_t>(static_cast<double>(ns) * kMiB / static_cast<double>(bytes)));
}

// All that the lane has submitted is over.
void Meter::settle(Lane& lane, uint64_t now) {
  if (lane.unfinished_ns() != 0) progress_ns_ = now;
  busy_ns_ += busy_time_.place(lane.reached_ns, now, lane.unfinished_ns());
  lane.allow(0);
  lane.finished = lane.marked = lane.done();
  lane.reached_ns = lane.marked_at_ns = lane.touched_ns = now;
  lane.marks = 0;
}

// ---- events, and the lock -----------------------------------------------------------------------

uint32_t Meter::context_of_thread() {
  CUcontext context = nullptr;
  if (captures_open()) return kContexts;
  if (driver_cuCtxGetCurrent(&context) != CUDA_SUCCESS || context == nullptr) return kContexts;
  const uint64_t id = id_of_current_context();
  uint32_t free = kContexts;
  for (uint32_t i = kContexts; i-- > 0;) {
    if (events_[i].is(context, id)) return i;
    if (events_[i].context() == nullptr || events_[i].context() == context) free = i;
  }
  if (free == kContexts) return free;
  const uint64_t now = sluice_clock(CLOCK_MONOTONIC);
  lanes_.for_each([&](Lane& lane) {
    if (lane.context == free && lane.unfinished_ns() != 0) settle(lane, now);
  });
  events_[free].become(context, id);
  return free;
}

// The legacy default stream waits for others, and they for it: an event there would make them wait
// for more than they do.
bool Meter::takes_events(const Lane& lane, uint32_t context) const {
  return context != kContexts && lane.context == context && events_[context].works() &&
         !captures_open() && !(lane.stream == CU_STREAM_LEGACY && blocking_streams());
}

// An event behind what the lane has submitted.
bool Meter::follow(Lane& lane, const Mark& mark, uint64_t now) {
  if (lane.marks == Lane::kMarks && lane.at_work()) return false;
  Mark made = mark;
  made.position = lane.done();
  made.recorded_ns = now;
  made.event = events_[lane.context].record(lane.stream);
  if (made.event == nullptr) return false;
  lane.push(made);
  return true;
}

void Meter::report(sluice_attachment* at, uint64_t now) {
  if (told_ != at) {
    told_ = at;
    told_from_ns_ = busy_ns_;
  }
  const auto skew = static_cast<uint64_t>(__atomic_load_n(&at->skew_ns, __ATOMIC_RELAXED));
  const sluice_device_report words{.busy_ns = busy_ns_ - told_from_ns_,
                                   .seen_ns = now - skew,
                                   .in_flight_ns = lanes_.in_flight_ns(),
                                   .longest_ns = longest_ns_};
  sluice_device_report_write(at->usage, &words);
}

// Its holder calls the driver, which takes microseconds. One that holds it for longer (the driver
// has it wait) keeps no launch from going on: that one is not metered.
bool Meter::lock() {
  constexpr int kTries = 1000;
  for (int i = 0; i < kTries; ++i) {
    if (sluice_try_lock(&lock_)) return true;
    if (i % 16 == 15) sched_yield();
  }
  return false;
}

}  // namespace sluice::hook
