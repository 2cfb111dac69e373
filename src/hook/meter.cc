#include "hook/meter.h"

#include <sched.h>

#include "hook/blocking_streams.h"
#include "hook/meter_parts.h"
#include "wire/permit_hints.h"

namespace sluice::hook {
namespace {

constexpr uint64_t kLaunchNs = 3'000;           // no launch takes the device longer to hear of
constexpr uint64_t kUnlearntLeaveNs = 100'000;  // of a lane whose units are still to be timed
constexpr uint64_t kWarmNs = 200'000;  // so soon the device is not given to another context
constexpr uint64_t kRingNs = 200'000;  // between two notices of begun iterations, or of ended ones
constexpr uint64_t kRarely = 4000;     // timings may take one part in so many of a thread's time
constexpr uint64_t kMostSpentNs = 10'000;  // on one; more, and the thread was off the processor

// Nothing of other processes is in flight, as the daemon last said.
bool nothing_beside(const sluice_attachment* at) {
  return sluice_read_alone(at->permit).since_ns < SLUICE_PARKED;
}

// A program that waits all the time does not keep the daemon from its work. Begins and ends count
// apart, for the next request often waits already when one ends.
bool is_time_to_ring(uint64_t& rang_ns, uint64_t now) {
  if (now - rang_ns < kRingNs) return false;
  rang_ns = now;
  return true;
}

}  // namespace

// ---- units --------------------------------------------------------------------------------------

Start Meter::start(sluice_attachment* at, uint32_t thread, const Work& work, Unit* unit) {
  if (!lock_patiently()) return Start::kLater;
  Start start = Start::kLater;
  const uint64_t now = sluice_clock(CLOCK_MONOTONIC);
  lanes_.host_ends(thread, now);
  Lane* lane = lanes_.find(thread, work.stream);
  if (lane != nullptr && renew(at, *lane, work, now)) {
    start = Start::kOnLeave;
  } else {
    const uint32_t context = ends_.context_of_thread(lanes_, now);
    lane = lane_for(thread, work.stream, context, now);
    if (lane != nullptr && wait_for(at, *lane, work, context, now) == 0) {
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
  const uint64_t now = sluice_clock(CLOCK_MONOTONIC);
  const uint32_t context = ends_.context_of_thread(lanes_, now);
  lanes_.host_ends(thread, now);
  if (Lane* lane = lane_for(thread, work.stream, context, now)) {
    // It may have stood at the gate since the last look, and its stream run dry.
    if (lane->context == context && context != LaneEnds::kContexts)
      ends_.poll_lane(lanes_, costs_, *lane, now);
    unit = begin_in(at, *lane, work, context);
  }
  unlock();
  return unit;
}

bool Meter::is_worth_timing(const Work& work, bool alone, uint64_t now) const {
  return (work.bytes == 0 || work.bytes >= kLeastBytes) &&
         (costs_.wants(work.key, alone) || now >= next_timing_ns_);
}

// Right after a look at the device, which took its time.
Unit Meter::begin_in(sluice_attachment* at, Lane& lane, const Work& work, uint32_t context) {
  const uint64_t now = sluice_clock(CLOCK_MONOTONIC);
  const bool timeable = ends_.takes_events(lanes_, lane, context);
  const bool warm = lane.unfinished_ns() != 0 || now - lane.touched_ns < kWarmNs;
  const bool alone = warm && !lanes_.others_in_flight(lane);
  Unit unit{
      .lane = &lane,
      .cost_ns = cost_of(work),
      .begun_ns = now,
      .spent_ns = 0,
      .known = costs_.guess(work.key) != 0,
      .timed = timeable && !lane.held_up && is_worth_timing(work, alone && nothing_beside(at), now),
      .followed = timeable,
      .dense = lane.at_work(),
      .alone = alone};
  if (lanes_.in_flight_ns() == 0) ends_.progress_ns = now;
  if (lane.unfinished_ns() == 0) lane.reached_ns = now;
  if (unit.timed && (lane.open_ns() != 0 || !lane.at_work()))
    unit.timed = ends_.follow(lane, {}, now);
  if (unit.timed) {
    unit.begun_ns = sluice_clock(CLOCK_MONOTONIC);
    unit.spent_ns = unit.begun_ns - now;
  }
  if (lane.open_ns() == 0) {
    lane.unit = work.key;
    lane.unit_end = lane.done() + unit.cost_ns;
  }
  lane.submit(unit.cost_ns);
  if (!unit.known && work.bytes == 0 && timeable) {
    lane.unknown_ns = kMostInFlightNs;
    lane.unknown_end = lane.done();
  }
  // Behind it there is room for no more, or for little: its end is to be seen. Where others have
  // leave, too, this lane's would else be half of what the last one left, again and again.
  const Room room = this->room(at, now);
  const bool last = room.left == 0 || room.bound < lanes_.in_flight_ns();
  if (!unit.timed && !last && lane.open_ns() < leave_for(lane, room) / 2) unit.followed = false;
  report(at, now);
  return unit;
}

// More leave without a look at the device, where the clock stands for that. Not to a lane that may
// belong to another context since it ran empty.
bool Meter::renew(sluice_attachment* at, Lane& lane, const Work& work, uint64_t now) {
  if (costs_.expected(work.key) == 0 || now >= next_timing_ns_) return false;
  if (lane.unfinished_ns() == 0 || lane.at_work() ||
      !ends_.takes_events(lanes_, lane, lane.context))
    return false;
  const bool had_marks = lane.marks != 0;
  ends_.poll_lane(lanes_, costs_, lane, now);
  if (!ends_.clock_will_do(lanes_, lane, now)) return false;
  size_leave(lane, room(at, now).bound, had_marks);
  ends_.follow_by_clock(lane, now);
  lane.touched_ns = now;
  give_leave(at, lane, now);
  const bool taken = passes(&lane, work.key);
  if (taken) lanes_.host_begins(lane, now);
  if (taken) report(at, now);
  return taken;
}

// Null: all are taken. One that is new, or empty and in another context now, begins here.
Lane* Meter::lane_for(uint32_t thread, CUstream stream, uint32_t context, uint64_t now) {
  Lane* lane = lanes_.claim(thread, stream);
  if (lane == nullptr) return nullptr;
  if (lane->touched_ns == 0 || (lane->context != context && lane->unfinished_ns() == 0)) {
    if (lane->touched_ns != 0) ends_.settle(*lane, now);  // of a unit that the driver refused
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
  if (!launched) {
    lane.take_back(unit.cost_ns);
    if (!unit.known && work.bytes == 0) lane.unknown_ns = 0;
  } else if (unit.followed && !unit.timed && ends_.clock_will_do(lanes_, lane, now)) {
    ends_.follow_by_clock(lane, now);
  } else if (unit.followed && ends_.takes_events(lanes_, lane, lane.context)) {
    follow_unit(lane, work, unit, now);
  }
  SLUICE_STEP("end: followed");
  lanes_.host_begins(lane, now);
  give_leave(at, lane, now);
  if (costs_.wants(work.key, true)) lane.allow(smaller(lane.leave_ns(), kUnlearntLeaveNs));
  report(at, now);
  unlock();
}

// An event behind the unit, which may say what it took.
void Meter::follow_unit(Lane& lane, const Work& work, const Unit& unit, uint64_t now) {
  ends_.follow(lane, timing_of(lane, work, unit, now), now);
  if (!unit.timed) return;
  const uint64_t then = sluice_clock(CLOCK_MONOTONIC);
  const uint64_t spent = smaller(unit.spent_ns + then - now, kMostSpentNs);
  next_timing_ns_ = then + kRarely * 2 * spent;  // looking at them takes as long again
}

// Where the stream ran dry before the unit, the device has waited for it no longer than its launch
// took. If that took long, its thread was off the processor, and it says nothing.
Timing Meter::timing_of(Lane& lane, const Work& work, const Unit& unit, uint64_t now) {
  if (lane.only_unit() != work.key || !lane.at_work() || !(unit.timed || unit.dense)) return {};
  const uint64_t gap = unit.timed && ends_.ran_dry(lane) ? now - unit.begun_ns : 0;
  if (gap > 2 * kLaunchNs && unit.known) return {};
  return {.unit = work.key,
          .bytes = work.bytes,
          .begun_ns = unit.begun_ns,
          .gap_ns = smaller(gap, kLaunchNs),
          .assumed_ns = unit.known ? 0 : unit.cost_ns,
          .alone = unit.alone};
}

// ---- waits --------------------------------------------------------------------------------------

bool Meter::over(sluice_attachment* at, uint32_t thread, uint64_t now) {
  const bool none = unfinished_of(thread) == 0;
  report(at, now);
  unlock();
  return none;
}

bool Meter::waited(sluice_attachment* at, uint32_t thread, CUstream stream, uint64_t begun_ns) {
  if (!lock()) return false;
  const uint64_t now = sluice_clock(CLOCK_MONOTONIC);
  const uint32_t context = ends_.context_of_thread(lanes_, now);
  lanes_.host_ends(thread, begun_ns);
  ends_.poll(lanes_, costs_, context, now);
  lanes_.for_each([&](Lane& lane) {
    if (lane.owner != thread || (stream != nullptr && lane.stream != stream)) return;
    if (stream == nullptr && lane.context != context) return;
    if (!ends_.takes_events(lanes_, lane, context)) learn_by_waiting(costs_, lane, now);
    ends_.settle(lane, now);
  });
  return over(at, thread, now);
}

bool Meter::copied(sluice_attachment* at, uint32_t thread, const Work& work, uint64_t begun_ns) {
  if (!lock()) return false;
  const uint64_t now = sluice_clock(CLOCK_MONOTONIC);
  const uint32_t context = ends_.context_of_thread(lanes_, now);
  lanes_.host_ends(thread, begun_ns);
  ends_.poll(lanes_, costs_, context, now);
  if (Lane* lane = lane_for(thread, work.stream, context, begun_ns)) {
    const bool alone =
        !lane->held_up && lane->unfinished_ns() == 0 && !lanes_.others_in_flight(*lane);
    if (alone && work.bytes >= kLeastBytes)
      ends_.take(costs_, {work.key, per_mib(now - begun_ns, work.bytes), begun_ns, now});
    lane->submit(cost_of(work));
    ends_.settle(*lane, now);
  }
  return over(at, thread, now);
}

bool Meter::looked(sluice_attachment* at, uint32_t thread, uint64_t begun_ns) {
  if (!lock()) return false;
  const uint64_t now = sluice_clock(CLOCK_MONOTONIC);
  lanes_.host_ends(thread, begun_ns);
  ends_.poll(lanes_, costs_, ends_.context_of_thread(lanes_, now), now);
  lanes_.for_each([&](Lane& lane) {
    if (lane.owner == thread && lane.marks == 0 && now - lane.touched_ns >= lane.open_ns())
      ends_.settle(lane, now);
  });
  return over(at, thread, now);
}

// The legacy stream waits for blocking ones, and they for it: there a wait may be everybody's.
void Meter::hold_up(CUstream stream) {
  if (!lock()) return;
  bool all = stream == nullptr || stream == CU_STREAM_LEGACY;
  if (blocking_streams())
    lanes_.for_each([&](const Lane& lane) { all |= lane.stream == CU_STREAM_LEGACY; });
  lanes_.for_each([&](Lane& lane) {
    if (all || lane.stream == stream) ends_.hold_up(lane);
  });
  unlock();
}

// ---- iterations ---------------------------------------------------------------------------------

// Open is what began last, where several threads have work; the first of them that has waited says
// that nothing is.
Stretch Meter::begin_stretch(sluice_attachment* at, uint32_t thread) {
  if (!lock()) return {};
  const uint64_t now = sluice_clock(CLOCK_MONOTONIC);
  const Stretch stretch{.begun_ns = now, .work_ns = submitted_by(thread)};
  report(at, now);
  sluice_say_due(at, now + sluice_slo(at));
  sluice_say_begun(at, now, larger(lanes_.submitted_ns(), told_from_ns_) - told_from_ns_,
                   is_time_to_ring(rang_at_begin_ns_, now));
  unlock();
  return stretch;
}

// A lane that became another's lost its count: then the sum says nothing.
void Meter::end_stretch(sluice_attachment* at, uint32_t thread, const Stretch& stretch) {
  if (!lock()) return;
  const uint64_t now = sluice_clock(CLOCK_MONOTONIC), cycle = now - stretch.begun_ns;
  const uint64_t submitted = submitted_by(thread);
  const uint64_t work = submitted > stretch.work_ns ? submitted - stretch.work_ns : 0;
  sluice_say_due(at, 0);
  const bool is_one = iterations_.is_one(cycle, work, now);
  if (is_one) sluice_say_iteration(at, cycle, Iterations::kind_of(work));
  sluice_say_begun(at, 0, 0, is_one && is_time_to_ring(rang_at_end_ns_, now));
  unlock();
}

void Meter::end_marked(sluice_attachment* at, uint64_t begun_ns, uint32_t kind) {
  if (!lock()) return;
  const uint64_t now = sluice_clock(CLOCK_MONOTONIC);
  sluice_say_due(at, 0);
  sluice_say_iteration(at, now - begun_ns, kind);
  sluice_say_begun(at, 0, 0, is_time_to_ring(rang_at_end_ns_, now));
  unlock();
}

// ---- what goes away -----------------------------------------------------------------------------

void Meter::leave_alone(CUcontext context) {
  if (context == nullptr || !lock()) return;
  ends_.leave_alone(context);
  unlock();
}
void Meter::use_again(CUcontext context) {
  if (context == nullptr || !lock()) return;
  ends_.use_again(context);
  unlock();
}
void Meter::forget_context(CUcontext context) {
  const uint64_t now = sluice_clock(CLOCK_MONOTONIC);
  if (context == nullptr || !lock()) return;
  if (ends_.forget(lanes_, context, now)) {  // its modules went with it
    costs_.doubt_kernels();
    ends_.forget_samples();
  }
  unlock();
}

void Meter::forget_unit(uint64_t key) {
  if (!lock()) return;
  costs_.forget(key);
  ends_.forget_samples();
  unlock();
}

void Meter::doubt_kernels() {
  if (!lock()) return;
  costs_.doubt_kernels();
  ends_.forget_samples();
  unlock();
}

// ---- the page, and the lock ---------------------------------------------------------------------

// A call that began under the pages of an earlier daemon may report to those.
bool Meter::is_older(const sluice_attachment* at) const {
  if (told_ == nullptr || told_ == at) return false;
  const bool closed = (__atomic_load_n(&at->permit->flags, __ATOMIC_RELAXED) & SLUICE_CLOSED) != 0;
  return closed ||
         static_cast<int32_t>(at->permit->header.generation - told_->permit->header.generation) < 0;
}

void Meter::report(sluice_attachment* at, uint64_t now) {
  if (is_older(at)) return;
  const uint64_t submitted = lanes_.submitted_ns(), finished = lanes_.finished_ns();
  if (told_ != at) {
    told_ = at;
    told_from_ns_ = finished;
    host_from_ns_ = lanes_.host_ns();
  }
  constexpr uint32_t kOthers = SLUICE_BESIDE | SLUICE_CONTENDED;
  ends_.see_others((__atomic_load_n(&at->permit->flags, __ATOMIC_RELAXED) & kOthers) != 0);
  const auto skew = static_cast<uint64_t>(__atomic_load_n(&at->skew_ns, __ATOMIC_RELAXED));
  ends_.confirm(costs_, sluice_read_alone(at->permit), skew);
  const sluice_device_report words{.submitted_ns = larger(submitted, told_from_ns_) - told_from_ns_,
                                   .finished_ns = larger(finished, told_from_ns_) - told_from_ns_,
                                   .host_ns = lanes_.host_ns() - host_from_ns_,
                                   .longest_ns = ends_.longest_ns(),
                                   .seen_ns = now - skew,
                                   .stalled = 0,
                                   .awaiting = 0};
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
// that. A holder that waits in the driver for longer keeps no thread from going on.
bool Meter::lock_patiently() {
  constexpr int kNaps = 200;  // 5 ms and more
  for (int i = 0; i < kNaps; ++i) {
    if (lock()) return true;
    sluice_nap(kNapNs);
  }
  return false;
}

}  // namespace sluice::hook
