// What of each lane is seen finished, and what units take: events that are recorded between them.
//
// An event costs a fifth of a launch (0.8 of 3.7 us on an H200), so it is recorded only
//   - around a unit that is to be timed;
//   - behind a lane's leave, where other clients have work, or where the stream had work left when
//     its thread came back: it is the only way to see how far that is;
//   - else once in kUnseenNs of expected work. In between the clock stands for events: what was
//     submitted has run when as much time has passed.
// What stands behind something else (a function of the program's, another stream's event) counts as
// run when as much time has passed, too: until then the device does not work for it.
// Where no event may be recorded (an open capture; a context without events; a legacy default
// stream beside streams that it waits for, while another thread has work in them), a lane is over
// once it is seen empty, or twice the expected time has passed.
//
// The caller has the meter's lock. Zeroed memory is one that has seen nothing.
#pragma once

#include "hook/context_events.h"
#include "hook/lanes.h"
#include "hook/unit_costs.h"
#include "wire/permit.h"

namespace sluice::hook {

class LaneEnds {
 public:
  static constexpr uint32_t kContexts = 16;         // the number of none
  static constexpr uint64_t kUnseenNs = 3'000'000;  // of work, without an event

  // Whether other clients have work: as the daemon last said.
  void see_others(bool others) { others_ = others; }
  bool others() const { return others_; }

  // Where the calling thread's events are; kContexts: nowhere, or they may not be touched now.
  uint32_t context_of_thread(Lanes& lanes, uint64_t now);
  bool takes_events(const Lanes& lanes, const Lane& lane, uint32_t context) const;

  // An event behind what the lane has submitted; or the clock, where that will do.
  bool follow(Lane& lane, const Timing& timing, uint64_t now);
  void follow_by_clock(Lane& lane, uint64_t now);
  bool clock_will_do(const Lanes& lanes, const Lane& lane, uint64_t now) const;
  // Whether the event before what the lane submits now is reached already.
  bool ran_dry(const Lane& lane) const {
    return ContextEvents::State::kPending != events_[lane.context].look(lane.last().event);
  }

  // Looks what is finished, in all lanes that can be looked at from the thread's context; in one.
  void poll(Lanes& lanes, UnitCosts& costs, uint32_t context, uint64_t now);
  void poll_lane(Lanes& lanes, UnitCosts& costs, Lane& lane, uint64_t now);
  // Sees to it that the end of what the lane has submitted is seen by one of the next looks. Its
  // stream is one that a call is being made for: others may have been destroyed.
  void watch(Lanes& lanes, UnitCosts& costs, Lane& lane, uint32_t context, uint64_t now);
  // All that the lane has submitted is over.
  void settle(Lane& lane, uint64_t now);
  // The stream of the lane waits for something else from now on; or, in `settle`, no longer.
  void hold_up(Lane& lane);

  // A context may be about to go: its events are left alone. Then it is used again, or has gone.
  void leave_alone(CUcontext context);
  void use_again(CUcontext context);
  bool forget(Lanes& lanes, CUcontext context, uint64_t now);

  // A timing of a unit. It is relied on for now; and once the daemon has said that no other client
  // had work meanwhile, for good.
  struct Sample {
    uint64_t unit, ns, begun_ns, ended_ns;
  };
  void take(UnitCosts& costs, const Sample& sample);
  void forget_samples() { samples_ = 0; }
  // By the daemon's clock, which is `skew` behind.
  void confirm(UnitCosts& costs, const sluice_time_alone& alone, uint64_t skew);

  uint64_t longest_ns() const { return longest_ns_; }  // of the units that were timed
  // When something was last seen finished, or begun where there was nothing.
  uint64_t progress_ns;

 private:
  uint32_t contexts_in_sight(Lanes& lanes, uint32_t context) const;
  void learn(Lanes& lanes, UnitCosts& costs, Lane& lane, const Mark& mark, uint64_t now);
  void settle_all_in(Lanes& lanes, uint32_t context, uint64_t now);
  static bool is_in_sight(const Lane& lane, uint32_t contexts) {
    return lane.context != kContexts && (contexts >> lane.context & 1u) != 0;
  }

  static constexpr unsigned kSamples = 32;

  bool others_;
  uint64_t longest_ns_;
  unsigned samples_;  // that wait to be confirmed; a newer one takes the oldest one's place
  unsigned oldest_;
  Sample sample_[kSamples];
  mutable ContextEvents events_[kContexts];
};

}  // namespace sluice::hook
