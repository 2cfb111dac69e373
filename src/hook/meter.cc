#include "hook/meter.h"

#include <sched.h>

#include "hook/blocking_streams.h"
#include "hook/meter_parts.h"

namespace sluice::hook {
namespace {

constexpr uint64_t kLaunchNs = 3'000;  // no launch takes the device longer to hear of
constexpr uint64_t kRarely = 4000;     // timings may take one part in so many of a thread's time
constexpr uint64_t kMostSpentNs = 10'000;  // on one; more, and the thread was off the processor

Mark by_the_clock(uint64_t position, uint64_t now) {
  Mark mark{};
  mark.position = position;
  mark.recorded_ns = now;
  return mark;
}

}  // namespace

Start Meter::start(sluice_attachment* at, uint32_t thread, const Work& work, Unit* unit) {
  if (!lock_patiently()) return Start::kLater;
  Start start = Start::kLater;
  const uint64_t now = sluice_clock(CLOCK_MONOTONIC);
  Lane* lane = lanes_.find(thread, work.stream);
  if (lane != nullptr && renew(at, *lane, work, now)) {
    start = Start::kOnLeave;
  } else {
    const uint32_t context = context_of_thread();
    lane = lane_for(thread, work.stream, context, now);
    if (lane != nullptr && wait_for(at, *lane, work, context, now) == 0 &&
        sluice_grant_rest(at) != 0) {
      *unit = begin_in(at, *lane, work, context);
      start = Start::kBegun;
    }
  }
  unlock();
  return start;
}

Unit Meter::begin(sluice_attachment* at, uint32_t thread, const Work& work) {
  Unit unit{};
  if (!lock_patiently()) return unit;
  const uint32_t context = context_of_thread();
  const uint64_t now = sluice_clock(CLOCK_MONOTONIC);
  if (Lane* lane = lane_for(thread, work.stream, context, now)) {
    // It may have stood at the gate since the last look, and its stream run dry.
    if (lane->context == context && context != kContexts) poll_lane_first(*lane, context, now);
    unit = begin_in(at, *lane, work, context);
  }
  unlock();
  return unit;
}

bool Meter::is_worth_timing(const Work& work, uint64_t now) const {
  return (work.bytes == 0 || work.bytes >= kLeastBytes) &&
         (costs_.expected(work.key) == 0 || now >= next_timing_ns_);
}

// Right after a look at the device, which took its time. The first unit of a context is always
// timed: the event before it, in an idle stream, is where the context's line of time begins.
Unit Meter::begin_in(sluice_attachment* at, Lane& lane, const Work& work, uint32_t context) {
  const uint64_t now = sluice_clock(CLOCK_MONOTONIC);
  const bool timeable = takes_events(lane, context);
  const uint64_t cost = cost_of(work, context);
  Unit unit{.lane = &lane,
            .cost_ns = cost,
            .begun_ns = now,
            .spent_ns = 0,
            .timed = timeable && (is_worth_timing(work, now) || !events_[context].has_line()),
            .followed = timeable,
            .dense = lane.at_work()};
  if (lanes_.in_flight_ns() == 0) progress_ns_ = now;
  if (lane.unfinished_ns() == 0) lane.reached_ns = now;
  if (unit.timed && (lane.open_ns() != 0 || !lane.at_work() || lane.held_up))
    unit.timed = follow(lane, several(unit.dense), now);
  if (unit.timed) {
    unit.begun_ns = sluice_clock(CLOCK_MONOTONIC);
    unit.spent_ns = unit.begun_ns - now;
  }
  if (lane.open_ns() == 0) {
    lane.unit = work.key;
    lane.unit_end = lane.done() + cost;
  }
  lane.submit(cost);
  // Behind it there is room for no more, or for little: its end is to be seen. Where others have
  // leave, too, this lane's would else be half of what the last one left, again and again.
  const bool last = smaller(kInFlightNs, sluice_grant_rest(at)) < lanes_.in_flight_ns() + cost;
  if (!unit.timed && !last && lane.open_ns() < leave_for(at, lane) / 2) unit.followed = false;
  report(at, now);
  return unit;
}

// More leave without a look at the device, where the clock stands for that. Not to a lane that may
// belong to another context since it ran empty.
bool Meter::renew(sluice_attachment* at, Lane& lane, const Work& work, uint64_t now) {
  if (costs_.expected(work.key) == 0 || now >= next_timing_ns_) return false;
  if (lane.unfinished_ns() == 0 || lane.at_work() || !takes_events(lane, lane.context))
    return false;
  const bool had_marks = lane.marks != 0;
  poll_lane(lane, now);
  reach_ends();
  if (!clock_will_do(at, lane, now)) return false;
  size_leave(lane, had_marks);
  lane.push(by_the_clock(lane.done(), now));
  lane.touched_ns = now;
  give_leave(at, lane);
  const bool taken = passes(&lane, work.key);
  if (taken) report(at, now);
  return taken;
}

// Null: all are taken. One that is new, or empty and in another context now, begins here.
Lane* Meter::lane_for(uint32_t thread, CUstream stream, uint32_t context, uint64_t now) {
  Lane* lane = lanes_.claim(thread, stream);
  if (lane == nullptr) return nullptr;
  if (lane->touched_ns == 0 || (lane->context != context && lane->unfinished_ns() == 0)) {
    if (lane->marks != 0) settle(*lane, now);  // of a unit that the driver refused
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
    lane.take_back(unit.cost_ns);
  else if (unit.followed && !unit.timed && clock_will_do(at, lane, now))
    lane.push(by_the_clock(lane.done(), now));
  else if (unit.followed && takes_events(lane, lane.context))
    follow_unit(lane, work, unit, now);
  SLUICE_STEP("end: followed");
  give_leave(at, lane);
  report(at, now);
  unlock();
}

// An event behind the unit, which may say what it took.
void Meter::follow_unit(Lane& lane, const Work& work, const Unit& unit, uint64_t now) {
  Mark mark = several(unit.dense);
  mark.follows = true;
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
  return lane.dry && !lane.held_up && !lane.at_work() && lane.only_unit() == 0 &&
         lane.marks < Lane::kMarks && !contended && lane.marked_at_ns + lane.open_ns() <= now &&
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
    lane.held_up = false;
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
    if (alone && !lane->held_up) learn(work.key, work.bytes, now - begun_ns);
    lane->held_up = false;
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

template <typename Visit>
void Meter::for_each_of(CUcontext context, Visit&& visit) {
  if (context == nullptr || !lock()) return;
  for (uint32_t i = 0; i < kContexts; ++i)
    if (events_[i].context() == context) visit(i);
  unlock();
}

void Meter::leave_alone(CUcontext context) {
  for_each_of(context, [&](uint32_t i) { events_[i].leave_alone(); });
}
void Meter::use_again(CUcontext context) {
  for_each_of(context, [&](uint32_t i) { events_[i].use_again(); });
}
void Meter::forget_context(CUcontext context) {
  const uint64_t now = sluice_clock(CLOCK_MONOTONIC);
  for_each_of(context, [&](uint32_t i) {
    settle_all_in(i, now);
    events_[i].become(nullptr, 0);
    costs_.doubt_kernels();  // its modules went with it
  });
}

// The legacy stream waits for blocking ones, and they for it: there a wait may be everybody's.
void Meter::hold_up(CUstream stream) {
  if (!lock()) return;
  bool all = stream == nullptr || stream == CU_STREAM_LEGACY;
  if (blocking_streams())
    lanes_.for_each([&](const Lane& lane) { all |= lane.stream == CU_STREAM_LEGACY; });
  lanes_.for_each([&](Lane& lane) { lane.held_up |= all || lane.stream == stream; });
  unlock();
}

void Meter::forget_unit(uint64_t key) {
  if (!lock()) return;
  costs_.forget(key);
  unlock();
}

void Meter::doubt_kernels() {
  if (!lock()) return;
  costs_.doubt_kernels();
  unlock();
}

// ---- the page, and the lock ---------------------------------------------------------------------

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

// Its holder calls the driver, which takes microseconds; whoever waits leaves the lock's cache line
// alone meanwhile.
bool Meter::lock() {
  constexpr int kLooks = 4000, kLooksInARow = 64;
  for (int i = 0; i < kLooks; ++i) {
    if (__atomic_load_n(&lock_, __ATOMIC_RELAXED) == 0 && sluice_try_lock(&lock_)) return true;
    pause_processor();
    if (i % kLooksInARow == kLooksInARow - 1) sched_yield();
  }
  return false;
}

// For what is about to be launched: were it to go on because the holder lost its processor, it
// would be neither bounded nor charged, and a program with more threads than processors often at
// that. A holder whom the driver has wait for longer keeps nobody from going on.
bool Meter::lock_patiently() {
  constexpr int kNaps = 200;  // 5 ms and more
  for (int i = 0; i < kNaps; ++i) {
    if (lock()) return true;
    sluice_nap(kNapNs);
  }
  return false;
}

}  // namespace sluice::hook
