#include "hook/lane_ends.h"

#include "hook/blocking_streams.h"
#include "hook/captures.h"
#include "hook/driver.h"
#include "hook/meter_parts.h"
#include "wire/permit.h"

SLUICE_DRIVER(cuCtxGetCurrent);
SLUICE_DRIVER(cuStreamQuery);

namespace sluice::hook {

// ---- contexts -----------------------------------------------------------------------------------

uint32_t LaneEnds::context_of_thread(Lanes& lanes, uint64_t now) {
  CUcontext context = nullptr;
  if (captures_open()) return kContexts;
  if (driver_cuCtxGetCurrent(&context) != CUDA_SUCCESS || context == nullptr) return kContexts;
  const uint64_t id = id_of_current_context();
  uint32_t free = kContexts;
  for (uint32_t i = kContexts; i-- > 0;) {
    if (events_[i].is(context, id)) return events_[i].left_alone() ? kContexts : i;
    if (events_[i].context() == nullptr || events_[i].context() == context) free = i;
  }
  if (free == kContexts) return free;
  settle_all_in(lanes, free, now);
  events_[free].become(context, id);
  return free;
}

// The context has gone, and the events with it.
void LaneEnds::settle_all_in(Lanes& lanes, uint32_t context, uint64_t now) {
  lanes.for_each([&](Lane& lane) {
    if (lane.context == context) settle(lane, now);
  });
}

// Those whose events can be looked at while `context` is current: a bit for each. Of the others,
// only those with something in flight are asked for.
uint32_t LaneEnds::contexts_in_sight(Lanes& lanes, uint32_t context) const {
  if (context == kContexts) return 0;
  uint32_t at_work = 0, in_sight = 1u << context;
  lanes.for_each([&](const Lane& lane) {
    if (lane.context != kContexts && lane.in_flight_ns() != 0) at_work |= 1u << lane.context;
  });
  for (uint32_t i = 0; i < kContexts; ++i)
    if ((at_work & ~in_sight & 1u << i) != 0 && events_[i].may_be_looked_at()) in_sight |= 1u << i;
  return in_sight;
}

void LaneEnds::leave_alone(CUcontext context) {
  for (ContextEvents& events : events_)
    if (events.context() == context) events.leave_alone();
}
void LaneEnds::use_again(CUcontext context) {
  for (ContextEvents& events : events_)
    if (events.context() == context) events.use_again();
}
bool LaneEnds::forget(Lanes& lanes, CUcontext context, uint64_t now) {
  bool known = false;
  for (uint32_t i = 0; i < kContexts; ++i) {
    if (events_[i].context() != context) continue;
    settle_all_in(lanes, i, now);
    events_[i].become(nullptr, 0);
    known = true;
  }
  return known;
}

// ---- marks --------------------------------------------------------------------------------------

// The legacy default stream waits for blocking ones, and they for it. An event right before a unit
// there has them wait as if the unit came that much sooner; one right behind it for nothing more,
// unless another thread submits to a blocking stream in between.
bool LaneEnds::takes_events(const Lanes& lanes, const Lane& lane, uint32_t context) const {
  return context != kContexts && lane.context == context && events_[context].works() &&
         !captures_open() &&
         !(lane.stream == CU_STREAM_LEGACY && blocking_streams() && lanes.others_beside(lane));
}

bool LaneEnds::follow(Lane& lane, const Timing& timing, uint64_t now) {
  if (lane.marks == Lane::kMarks && lane.at_work()) return false;
  if (lane.held_up && lane.awaited != nullptr) {
    follow_by_clock(lane, now);
    return true;
  }
  const CUevent event = events_[lane.context].record(lane.stream);
  if (event == nullptr) return false;
  SLUICE_STEP("follow: recorded");
  if (lane.held_up) {
    lane.awaited = event;
    follow_by_clock(lane, now);
    return true;
  }
  lane.push({event, lane.done(), now, timing});
  return true;
}

void LaneEnds::follow_by_clock(Lane& lane, uint64_t now) {
  if (lane.marks < Lane::kMarks) lane.push({nullptr, lane.done(), now, {}});
}

// The stream's work comes slower than it is done, and nothing keeps the device from it.
bool LaneEnds::clock_will_do(const Lanes& lanes, const Lane& lane, uint64_t now) const {
  return !others_ && !lane.held_up && !lane.at_work() && lane.unknown_ns == 0 &&
         lane.marks < Lane::kMarks && lane.marked_at_ns + lane.open_ns() <= now &&
         lane.unseen_ns + lane.open_ns() <= kUnseenNs && !lanes.others_in_flight(lane);
}

void LaneEnds::hold_up(Lane& lane) {
  lane.held_up = true;
  if (lane.awaited != nullptr) events_[lane.context].give_back(lane.awaited);
  lane.awaited = nullptr;
}

// ---- looks --------------------------------------------------------------------------------------

// A lane without an event is over when it has had the time of all that is in flight twice, and
// nothing was submitted to it meanwhile.
void LaneEnds::poll(Lanes& lanes, UnitCosts& costs, uint32_t context, uint64_t now) {
  const uint32_t contexts = contexts_in_sight(lanes, context);
  bool pending = false;
  lanes.for_each([&](Lane& lane) {
    if (!is_in_sight(lane, contexts)) return;
    poll_lane(lanes, costs, lane, now);
    pending |= lane.at_work();
  });
  lanes.for_each([&](Lane& lane) {
    const bool in_sight = is_in_sight(lane, contexts);
    if (in_sight && lane.marks != 0) return;  // its event will tell
    const bool soon = in_sight && !pending;
    const uint64_t slack = lane.marks != 0 ? 100 * kDrySlackNs : soon ? 2 * kNapNs : kDrySlackNs;
    if (lane.in_flight_ns() != 0 && lane.still_for(2 * lanes.in_flight_ns() + slack, now))
      settle(lane, now);
  });
}

void LaneEnds::poll_lane(Lanes& lanes, UnitCosts& costs, Lane& lane, uint64_t now) {
  ContextEvents& events = events_[lane.context];
  if (lane.awaited != nullptr && events.look(lane.awaited) != ContextEvents::State::kPending) {
    events.give_back(lane.awaited);
    lane.awaited = nullptr;
    lane.held_up = false;
  }
  while (lane.marks != 0) {
    const Mark mark = lane.first();
    if (mark.event != nullptr) {
      const auto state = events.look(mark.event);
      if (state == ContextEvents::State::kPending) return;
      if (state == ContextEvents::State::kLost) return settle(lane, now);
      if (mark.timing.unit != 0 && lane.reached != nullptr) learn(lanes, costs, lane, mark, now);
      lane.reached_ns = now;
    } else {
      if (lane.due_ns() > now) return;
      lane.reached_ns = lane.due_ns();
    }
    events.give_back(lane.reached);
    lane.reached = mark.event;
    lane.pop();
    progress_ns = now;
  }
  events.give_back(lane.reached);  // nothing is timed from there any more
  lane.reached = nullptr;
}

// The unit between two events. One that nothing was known of was charged too little or too much.
void LaneEnds::learn(Lanes& lanes, UnitCosts& costs, Lane& lane, const Mark& mark, uint64_t now) {
  const Timing& t = mark.timing;
  const uint64_t span = ContextEvents::between_ns(lane.reached, mark.event);
  if (span == 0) return;  // the driver cannot say
  const uint64_t took = larger(span - smaller(span, t.gap_ns), kLeastNs);
  longest_ns_ = larger(longest_ns_, took);
  if (t.bytes != 0 && t.bytes < kLeastBytes) return;
  const uint64_t ns = t.bytes != 0 ? per_mib(took, t.bytes) : took;
  const bool alone = t.alone && !lanes.others_in_flight(lane);
  if (alone)
    take(costs, {t.unit, ns, t.begun_ns, now});
  else
    costs.learn_beside(t.unit, ns);
  if (t.assumed_ns != 0)  // beside others, it is charged no more than the bound that it filled
    lanes.correct(t.assumed_ns, alone && !others_ ? took : smaller(took, kInFlightNs));
}

void LaneEnds::take(UnitCosts& costs, const Sample& sample) {
  costs.learn_beside(sample.unit, sample.ns);
  if (samples_ == kSamples) {
    oldest_ = (oldest_ + 1) % kSamples;
    --samples_;
  }
  sample_[(oldest_ + samples_++) % kSamples] = sample;
}

void LaneEnds::confirm(UnitCosts& costs, const sluice_time_alone& alone, uint64_t skew) {
  for (; samples_ != 0; oldest_ = (oldest_ + 1) % kSamples, --samples_) {
    const Sample& sample = sample_[oldest_];
    if (sample.ended_ns - skew > alone.until_ns) return;
    if (alone.since_ns <= sample.begun_ns - skew) costs.learn(sample.unit, sample.ns);
  }
}

void LaneEnds::watch(Lanes& lanes, UnitCosts& costs, Lane& lane, uint32_t context, uint64_t now) {
  if (takes_events(lanes, lane, context)) {
    if (lane.open_ns() != 0 || !lane.at_work()) follow(lane, {}, now);
  } else if (context != kContexts && driver_cuStreamQuery(lane.stream) != CUDA_ERROR_NOT_READY) {
    learn_by_waiting(costs, lane, now);
    settle(lane, now);
  }
}

void LaneEnds::settle(Lane& lane, uint64_t now) {
  if (lane.unfinished_ns() != 0) progress_ns = now;
  lane.allow(0);
  lane.finished = lane.marked = lane.done();
  lane.unknown_ns = 0;
  lane.reached_ns = lane.marked_at_ns = lane.touched_ns = now;
  lane.held_up = false;
  if (lane.context == kContexts) return;
  ContextEvents& events = events_[lane.context];
  for (; lane.marks != 0; lane.oldest = (lane.oldest + 1) % Lane::kMarks, --lane.marks)
    events.give_back(lane.first().event);
  events.give_back(lane.reached);
  events.give_back(lane.awaited);
  lane.reached = lane.awaited = nullptr;
}

}  // namespace sluice::hook
