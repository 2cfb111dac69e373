// What one device does for this process: metered, and bounded in what is in flight.
//
// Every launch adds what it is expected to take to its lane, and most go no further: a lane has
// leave to submit some more without looking. The others come to make_room(), begin() and end(),
// which record and poll timing events, learn what units take, and tell the daemon (the device's
// words of the usage page). Nothing here waits for the device but make_room(), in short sleeps,
// while too much is in flight; no thread, and no lock beyond this process.
//
// Busy time is, for each stretch between two events in a stream,
//   - what lies between them on the device's clock, where the stream cannot have run dry or where
//     they stand around a single unit: *exact*;
//   - else what its units are expected to take, as far as there is room between them.
// An event costs as much as a launch. So a stream that has run dry before the last one gets one
// only every kUnseenNs of expected work, and for the others the clock stands: what was submitted
// has run when as much time has passed. Not where others want the device, or other streams of the
// process have work, for both make units take longer.
// All stretches are united (busy_time.h). Where no event may be recorded (a capture that is open; a
// context without events; a legacy default stream beside streams that it waits for, while another
// thread has work in them) a stretch ends when the stream is seen empty, or twice the expected time
// has passed.
//
// In flight may be kInFlightNs, and no more than is left of the grant; or one unit, however long.
// Why so little: what is in flight when a permit is revoked runs on, and revocation has to be over
// after a millisecond. Why so much: who sleeps wakes a tenth of a millisecond late, and the device
// should not run dry. A unit that nothing is known of is taken to fill the bound: it runs alone.
//
// Four sources: units as they come and go (meter.cc), what is in flight and who waits for it
// (meter_room.cc), what is finished and how that is seen (meter_finished.cc), and what is said of
// iterations (meter_stretches.cc).
#pragma once

#include "hook/busy_time.h"
#include "hook/context_events.h"
#include "hook/iterations.h"
#include "hook/lanes.h"
#include "hook/unit_costs.h"
#include "wire/permit.h"

namespace sluice::hook {

constexpr uint64_t kInFlightNs = 750'000;
constexpr uint64_t kNearlyDoneNs = 200'000;  // with so little left to run, the next unit may follow
constexpr uint64_t kUnseenNs = 3'000'000;    // of work, without an event
constexpr uint64_t kDryNs = 100'000;         // of work left: a stream that is nearly dry
constexpr uint64_t kPatienceNs = 1'000'000'000;  // without any progress nobody waits longer

// A unit of work, as its caller describes it.
struct Work {
  CUstream stream;  // never null: a default stream goes by its own handle
  uint64_t key;     // unit_costs.h
  uint64_t bytes;   // of a copy, whose key's cost is that of a MiB; 0: not a copy
};

// A unit between begin() and end().
struct Unit {
  Lane* lane;  // null: not metered
  uint64_t cost_ns, begun_ns;
  uint64_t spent_ns;  // with the event before it
  bool timed;         // alone between two events
  bool followed;      // an event is to be recorded behind it
  bool dense;         // the stream had work up to it
};

// How a unit that has no leave may go on.
enum class Start {
  kBegun,    // it is, and end() comes behind it
  kOnLeave,  // its lane has leave again, of which it was taken: no end()
  kLater,    // make_room() has to wait, or the gate to look
};

class Meter {
 public:
  // Leave to submit, which the lane's thread may use without looking: the fast path.
  bool passes_at_once(Lane* lane, CUstream stream, uint64_t key) const {
    return lane->stream == stream && lane->takes(costs_.expected_at_first_glance(key));
  }
  bool passes(Lane* lane, uint64_t key) const { return lane->takes(costs_.expected(key)); }
  Lane* lane_of(uint32_t thread, CUstream stream) { return lanes_.find(thread, stream); }

  // Every other unit: at once, if that is possible.
  Start start(sluice_attachment* at, uint32_t thread, const Work& work, Unit* unit);
  // Else: returns when there is room for it (false: and nothing left of the grant, so that the gate
  // has to look at it); is called right before and behind it.
  bool make_room(sluice_attachment* at, uint32_t thread, const Work& work);
  Unit begin(sluice_attachment* at, uint32_t thread, const Work& work);
  void end(sluice_attachment* at, const Work& work, const Unit& unit, bool launched);

  // The thread has waited for one of its streams, or (null) for all of its context. Whether nothing
  // that it submitted is in flight any more.
  bool waited(sluice_attachment* at, uint32_t thread, CUstream stream);
  // A copy into its own default stream, begun then, is over, and so is that stream.
  bool copied(sluice_attachment* at, uint32_t thread, const Work& work, uint64_t begun_ns);
  // It waits, or has waited, for something else: looks what is finished.
  bool looked(sluice_attachment* at, uint32_t thread);

  // The stream (null: any of them) does nothing until something else has happened: a function of
  // the program's has run, an event was reached, a word was written. What is behind that is in
  // flight, and the time until then is not the device's.
  void hold_up(CUstream stream);

  // It is about to launch into a stream and finds its permit revoked: looks on, and says what is
  // left, until nothing is. The permit can go to somebody else that much sooner.
  void drain(sluice_attachment* at, uint32_t thread, CUstream stream);

  // A stretch of the thread's work (iterations.h), of a slice that asks for iterations: it is about
  // to launch, and has waited since its last launch before; it has waited again.
  Stretch begin_stretch(sluice_attachment* at, uint32_t thread);
  void end_stretch(sluice_attachment* at, uint32_t thread, const Stretch& stretch);

  // A context may be about to go: its events are left alone. Then it has gone, with them and
  // whatever ran in it, or not.
  void leave_alone(CUcontext context);
  void use_again(CUcontext context);
  void forget_context(CUcontext context);
  void forget_unit(uint64_t key);
  void doubt_kernels();

 private:
  static constexpr uint32_t kContexts = 16;

  bool lock();
  bool lock_patiently();
  void unlock() { sluice_unlock(&lock_); }
  void report(sluice_attachment* at, uint64_t now);

  Unit begin_in(sluice_attachment* at, Lane& lane, const Work& work, uint32_t context);
  bool is_worth_timing(const Work& work, uint64_t now) const;
  bool renew(sluice_attachment* at, Lane& lane, const Work& work, uint64_t now);
  Lane* lane_for(uint32_t thread, CUstream stream, uint32_t context, uint64_t now);
  // Where its events are; kContexts: nowhere, or they may not be touched now.
  uint32_t context_of_thread();
  bool takes_events(const Lane& lane, uint32_t context) const;
  void settle_all_in(uint32_t context, uint64_t now);
  void learn(uint64_t key, uint64_t bytes, uint64_t ns);
  uint64_t cost_of(const Work& work, uint32_t context) const;
  void learn_by_waiting(const Lane& lane, uint64_t now);

  uint64_t left_ns(uint64_t now);
  uint64_t too_early_ns(const Lane& lane, uint64_t cost, uint64_t rest, uint64_t now) const;
  uint64_t wait_for(sluice_attachment* at, Lane& lane, const Work& work, uint32_t context,
                    uint64_t now);
  uint64_t leave_for(sluice_attachment* at, const Lane& lane);
  void give_leave(sluice_attachment* at, Lane& lane);
  static void size_leave(Lane& lane, bool had_marks);

  uint32_t contexts_in_sight(uint32_t context);
  static bool is_in_sight(const Lane& lane, uint32_t contexts) {
    return lane.context != kContexts && (contexts >> lane.context & 1u) != 0;
  }
  void poll(uint32_t context, uint64_t now);
  void poll_lane(Lane& lane, uint64_t now);
  void poll_lane_first(Lane& lane, uint32_t context, uint64_t now);
  void note_end(Lane& lane, const Mark& mark, uint64_t at);
  void reach_ends();
  uint64_t patience_with(const Lane& lane, bool in_sight, bool pending) const;
  bool passed(const Lane& lane) const {
    return !lane.held_up && lane.noted > lane.finished &&
           passed_[lane.context].recorded_ns >= lane.noted_ns;
  }
  void pass(Lane& lane, uint64_t now);
  void reach(Lane& lane, const Mark& mark, uint64_t at);
  void settle(Lane& lane, uint64_t now);
  bool follow(Lane& lane, const Mark& mark, uint64_t now);
  void follow_unit(Lane& lane, const Work& work, const Unit& unit, uint64_t now);
  bool clock_will_do(const sluice_attachment* at, const Lane& lane, uint64_t now) const;
  uint64_t unfinished_beside(const Lane& lane);
  uint64_t unfinished_of(uint32_t thread);
  // All that it has submitted, by what that was expected to take.
  uint64_t submitted_by(uint32_t thread);
  void watch(Lane& lane, uint32_t context, uint64_t now);
  template <typename Visit>
  void for_each_of(CUcontext context, Visit&& visit);

  uint32_t lock_;  // alone: whoever waits for it reads it all the time
  alignas(64) uint64_t busy_ns_, longest_ns_;
  uint64_t progress_ns_;     // something was last seen finished, or begun where there was nothing
  uint64_t given_up_ns_;     // nobody waits while nothing has been, since then
  uint64_t next_timing_ns_;  // what is known is timed again no sooner
  // The last event right behind a unit that had to wait, in each context (none in the last):
  // devices take turns between contexts, so that it says nothing of another's.
  struct {
    uint64_t recorded_ns, reached_ns;
  } passed_[kContexts + 1];
  // Ends that a look has found, and that are not in busy time yet.
  static constexpr unsigned kEnds = 64;
  struct {
    Lane* lane;
    Mark mark;
    uint64_t at;
  } ends_[kEnds];
  unsigned ends_found_;
  const sluice_attachment* told_;
  uint64_t told_from_ns_;  // busy_ns_ when its page was new
  BusyTime busy_time_;
  Iterations iterations_;
  UnitCosts costs_;
  ContextEvents events_[kContexts];
  Lanes lanes_;
};

}  // namespace sluice::hook
