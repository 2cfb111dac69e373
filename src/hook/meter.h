// What one device is to do for this process: counted in the time that units are expected to take
// alone, and bounded in what is in flight.
//
// Every launch adds its expected cost to its lane, and most go no further: a lane has leave to
// submit some more without looking. The others come to make_room(), begin() and end(), which see
// what is finished, learn what units take, and report to the daemon (the device's words of the
// usage page). Nothing here waits for the device except make_room(), in short sleeps, while too
// much is in flight; there is no thread, and no lock beyond this process.
//
//   Lanes       what is submitted, and how much of it is in flight; the program's own time
//   LaneEnds    what of that is seen finished; what units take
//   Iterations  which of the program's waits end an iteration
//
// In flight may be as much as the page says (kInFlightNs without a grant), and near the end of what
// may be submitted no more than is left of it, but kLeastInFlightNs; or one unit, however long. A
// unit starts while anything is left; what it takes beyond that is debt, which the daemon counts.
// Why so little: what is in flight when a hold begins runs on. Why so much: a thread that sleeps
// wakes a tenth of a millisecond late, and the device should not run dry. A unit of unknown cost
// fills the bound: it runs alone.
//
// Two sources: units as they come and go (meter.cc), and what is in flight and waits for it
// (meter_room.cc).
#pragma once

#include "hook/iterations.h"
#include "hook/lane_ends.h"
#include "hook/lanes.h"
#include "hook/unit_costs.h"
#include "wire/permit.h"

namespace sluice::hook {

constexpr uint64_t kLeastInFlightNs = 150'000;   // policy::Budget::kLeastInFlight
constexpr uint64_t kNearlyDoneNs = 200'000;      // with so little left to run, the next may follow
constexpr uint64_t kPatienceNs = 1'000'000'000;  // without any progress no thread waits longer

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
  bool known;         // what it takes is known
  bool timed;         // alone between two events
  bool followed;      // its end is to be seen
  bool dense;         // the stream had work up to it
  bool alone;         // no other stream of the process had any, and the device was just in use
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
  // Else: returns when there is room for it (false: nothing may be submitted, so the gate has to
  // look at it); is called right before and behind it.
  bool make_room(sluice_attachment* at, uint32_t thread, const Work& work);
  Unit begin(sluice_attachment* at, uint32_t thread, const Work& work);
  void end(sluice_attachment* at, const Work& work, const Unit& unit, bool launched);

  // The thread has waited, from `begun_ns` on, for one of its streams, or (null) for all of its
  // context. Returns whether nothing that it submitted is in flight any more.
  bool waited(sluice_attachment* at, uint32_t thread, CUstream stream, uint64_t begun_ns);
  // A copy into its own default stream, begun then, is over, and so is that stream.
  bool copied(sluice_attachment* at, uint32_t thread, const Work& work, uint64_t begun_ns);
  // It waits from `begun_ns` on, or has waited, for something else: looks what is finished.
  bool looked(sluice_attachment* at, uint32_t thread, uint64_t begun_ns);

  // The stream (null: any of them) does nothing until something else has happened: a function of
  // the program's has run, an event was reached, a word was written.
  void hold_up(CUstream stream);

  // The thread is about to launch into a stream, and may not: looks on, and reports what is left,
  // until nothing is, or it may.
  void drain(sluice_attachment* at, uint32_t thread, CUstream stream);

  // A stretch of the thread's work (iterations.h), of a slice with an objective for iterations: it
  // is about to launch, and has waited since its last launch; it has waited again.
  Stretch begin_stretch(sluice_attachment* at, uint32_t thread);
  void end_stretch(sluice_attachment* at, uint32_t thread, const Stretch& stretch);
  // An iteration that the program has marked ends, of the kind that it states.
  void end_marked(sluice_attachment* at, uint64_t begun_ns, uint32_t kind);

  // A context may be about to go: its events are left alone. Then it is used again, or has gone.
  void leave_alone(CUcontext context);
  void use_again(CUcontext context);
  void forget_context(CUcontext context);
  void forget_unit(uint64_t key);
  void doubt_kernels();

 private:
  // What may be in flight, and submitted beyond that and all leaves.
  struct Room {
    uint64_t bound, left;
  };

  bool lock();
  bool lock_patiently();
  void unlock() { sluice_unlock(&lock_); }
  bool is_older(const sluice_attachment* at) const;
  void report(sluice_attachment* at, uint64_t now);
  bool over(sluice_attachment* at, uint32_t thread, uint64_t now);

  Unit begin_in(sluice_attachment* at, Lane& lane, const Work& work, uint32_t context);
  bool is_worth_timing(const Work& work, bool alone, uint64_t now) const;
  bool renew(sluice_attachment* at, Lane& lane, const Work& work, uint64_t now);
  Lane* lane_for(uint32_t thread, CUstream stream, uint32_t context, uint64_t now);
  Timing timing_of(Lane& lane, const Work& work, const Unit& unit, uint64_t now);
  void follow_unit(Lane& lane, const Work& work, const Unit& unit, uint64_t now);

  Room room(sluice_attachment* at, uint64_t now) const;
  uint64_t left_ns(uint64_t now);
  uint64_t too_early_ns(const Lane& lane, uint64_t cost, const Room& room, uint64_t now) const;
  uint64_t wait_for(sluice_attachment* at, Lane& lane, const Work& work, uint32_t context,
                    uint64_t now);
  uint64_t leave_for(const Lane& lane, const Room& room) const;
  void give_leave(sluice_attachment* at, Lane& lane, uint64_t now);
  static void size_leave(Lane& lane, uint64_t bound, bool had_marks);
  uint64_t cost_of(const Work& work) const;
  uint64_t unfinished_of(uint32_t thread);
  uint64_t submitted_by(uint32_t thread);

  uint32_t lock_;  // on a line of its own: threads that wait read it all the time
  alignas(64) uint64_t given_up_ns_;  // no thread waits while nothing has been finished since then
  uint64_t rang_at_begin_ns_, rang_at_end_ns_;
  uint64_t next_timing_ns_;  // what is known is timed again no sooner
  // The pages that were reported to last, and the totals when they were new.
  const sluice_attachment* told_;
  uint64_t told_from_ns_, host_from_ns_;
  Iterations iterations_;
  UnitCosts costs_;
  LaneEnds ends_;
  Lanes lanes_;
};

}  // namespace sluice::hook
