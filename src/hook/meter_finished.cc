// What the meter finds finished, and the events that tell it (meter.h).
#include "hook/blocking_streams.h"
#include "hook/captures.h"
#include "hook/meter.h"
#include "hook/meter_parts.h"

SLUICE_DRIVER(cuCtxGetCurrent);

namespace sluice::hook {

// Those whose events can be looked at while `context` is current: a bit for each. Of the others,
// only those with something in flight are asked for.
uint32_t Meter::contexts_in_sight(uint32_t context) {
  if (context == kContexts) return 0;
  uint32_t at_work = 0, in_sight = 1u << context;
  lanes_.for_each([&](const Lane& lane) {
    if (lane.context != kContexts && lane.in_flight_ns() != 0) at_work |= 1u << lane.context;
  });
  for (uint32_t i = 0; i < kContexts; ++i)
    if ((at_work & ~in_sight & 1u << i) != 0 && events_[i].may_be_looked_at()) in_sight |= 1u << i;
  return in_sight;
}

// The end of a lane without a mark is taken for over after a while: what was submitted before
// another lane's unit when that has run (pass()); the rest when there is no event to wait for and
// all that is in flight has had its time twice.
void Meter::poll(uint32_t context, uint64_t now) {
  const uint32_t contexts = contexts_in_sight(context);
  bool pending = false;
  lanes_.for_each([&](Lane& lane) {
    if (!is_in_sight(lane, contexts)) return;
    poll_lane(lane, now);
    pending |= lane.at_work();
  });
  reach_ends();
  lanes_.for_each([&](Lane& lane) {
    const bool in_sight = is_in_sight(lane, contexts);
    if (in_sight && lane.marks == 0 && takes_events(lane, lane.context) && passed(lane) &&
        now - lane.noted_ns > 2 * (lane.noted - lane.finished))
      pass(lane, now);
    if (lane.in_flight_ns() != 0 && lane.still_for(patience_with(lane, in_sight, pending), now))
      settle(lane, now);
  });
}

// With the end of a lane in which nothing was submitted for so long. One that waits for something
// else has its next event for that, if its thread goes on.
uint64_t Meter::patience_with(const Lane& lane, bool in_sight, bool pending) const {
  if (lane.held_up && lane.marks == 0 && lane.unfinished_ns() != 0) return kPatienceNs;
  if (in_sight && lane.marks == 0 && takes_events(lane, lane.context) && !pending)
    return 2 * lanes_.in_flight_ns() + 2 * kNapNs;
  if (in_sight && lane.marks != 0) return UINT64_MAX;
  return 2 * lane.in_flight_ns() + (lane.marks == 0 ? 1 : 100) * kDrySlackNs;
}

void Meter::poll_lane(Lane& lane, uint64_t now) {
  while (lane.marks != 0) {
    const Mark mark = lane.first();
    uint64_t at = 0;
    if (mark.event != nullptr) {
      const auto state = events_[lane.context].look(mark.event, mark.recorded_ns, &at);
      if (state == ContextEvents::State::kPending) return;
      if (state == ContextEvents::State::kLost) {
        reach_ends();
        return settle(lane, now);
      }
      lane.dry = at < mark.recorded_ns + kDryNs;
      auto& passed = passed_[lane.context];
      if (mark.follows && at > mark.recorded_ns + kQueuedNs &&
          mark.recorded_ns > passed.recorded_ns)
        passed = {mark.recorded_ns, at};
    } else {
      reach_ends();
      at = lane.due_ns();
      if (at > now) return;
    }
    lane.pop();
    note_end(lane, mark, at);
    progress_ns_ = now;
  }
}

// Alone, unless it waited for another's work: that has to be in busy time before.
void Meter::poll_lane_first(Lane& lane, uint32_t context, uint64_t now) {
  bool waited = false;
  for (unsigned i = 0; i < lane.marks; ++i)
    waited |= lane.ring[(lane.oldest + i) % Lane::kMarks].held_up;
  if (waited) return poll(context, now);
  poll_lane(lane, now);
  reach_ends();
}

// In the order of their ends: what is placed takes the earliest time that nobody has, so that what
// ended sooner has to have its own by then. (A stream waits for another's kernel: its end comes
// later, and its lane may be looked at first.)
void Meter::note_end(Lane& lane, const Mark& mark, uint64_t at) {
  if (ends_found_ == kEnds) reach_ends();
  unsigned place = ends_found_++;
  for (; place > 0 && ends_[place - 1].at > at; --place) ends_[place] = ends_[place - 1];
  ends_[place] = {&lane, mark, at};
}

void Meter::reach_ends() {
  for (unsigned i = 0; i < ends_found_; ++i) reach(*ends_[i].lane, ends_[i].mark, ends_[i].at);
  ends_found_ = 0;
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

// What the lane had submitted before a unit of another that has run: it has run before the end of
// that, in time that is counted already as far as there is no other. (A device takes up work in the
// order in which it comes.) But a stream takes no less time than its units.
void Meter::pass(Lane& lane, uint64_t now) {
  const uint64_t ns = lane.noted - lane.finished;
  const uint64_t reached = passed_[lane.context].reached_ns;
  const uint64_t at = smaller(larger(reached, lane.reached_ns + ns), now);
  busy_ns_ += busy_time_.place(lane.reached_ns, at, ns);
  lane.finished = lane.noted;
  lane.marked = larger(lane.marked, lane.noted);
  lane.reached_ns = at;
}

// All that the lane has submitted is over.
void Meter::settle(Lane& lane, uint64_t now) {
  if (lane.unfinished_ns() != 0) progress_ns_ = now;
  if (lane.marks == 0 && passed(lane)) pass(lane, now);
  busy_ns_ += busy_time_.place(lane.reached_ns, now, lane.unfinished_ns());
  lane.allow(0);
  lane.finished = lane.marked = lane.done();
  lane.reached_ns = lane.marked_at_ns = lane.touched_ns = now;
  for (; lane.marks != 0; lane.pop())
    if (lane.first().event != nullptr) events_[lane.context].give_back(lane.first().event);
}

// ---- events -------------------------------------------------------------------------------------

uint32_t Meter::context_of_thread() {
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
  settle_all_in(free, sluice_clock(CLOCK_MONOTONIC));
  events_[free].become(context, id);
  return free;
}

// The context has gone, and the events with it.
void Meter::settle_all_in(uint32_t context, uint64_t now) {
  lanes_.for_each([&](Lane& lane) {
    if (lane.context == context && (lane.unfinished_ns() != 0 || lane.marks != 0))
      settle(lane, now);
  });
}

// The legacy default stream waits for blocking ones, and they for it. An event right before a unit
// there has them wait as if the unit came that much sooner; one right behind it for nothing more,
// unless another thread submits to a blocking stream in between.
bool Meter::takes_events(const Lane& lane, uint32_t context) const {
  return context != kContexts && lane.context == context && events_[context].works() &&
         !captures_open() &&
         !(lane.stream == CU_STREAM_LEGACY && blocking_streams() && lanes_.others_beside(lane));
}

// An event behind what the lane has submitted.
bool Meter::follow(Lane& lane, const Mark& mark, uint64_t now) {
  if (lane.marks == Lane::kMarks && lane.at_work()) return false;
  Mark made = mark;
  made.position = lane.done();
  made.recorded_ns = now;
  made.event = events_[lane.context].record(lane.stream);
  if (made.event == nullptr) return false;
  SLUICE_STEP("follow: recorded");
  lane.push(made);
  if (!mark.follows) return true;
  lanes_.for_each([&](Lane& other) {
    if (&other != &lane && other.context == lane.context) other.note(now);
  });
  return true;
}

}  // namespace sluice::hook
