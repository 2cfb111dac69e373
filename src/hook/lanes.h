// The account of work in flight: what each thread has submitted to each stream (a lane), in
// nanoseconds that it is expected to take alone, and how much of that is seen finished; and the
// program's own time between launches.
//
// A lane's thread writes `submitted`, and may submit up to `limit` (its *leave*) without looking
// further. Everything else is written under the meter's lock. What is written at every launch has a
// cache line of its own, and what is in flight can be told without reading it: a thread that reads
// another's line makes that one's next launch wait. Pure, except that it asks the kernel whether a
// thread lives. Zeroed memory is an empty account; what a fork wiped is one.
#pragma once

#include <stdint.h>

#include "abi/cuda_types.h"

namespace sluice::hook {

constexpr uint64_t kInFlightNs = 750'000;  // the bound without a grant
constexpr uint64_t kMostInFlightNs =
    3'000'000;  // no bound is larger: a unit of unknown cost fills it

// A single unit between two events, which say what it takes.
struct Timing {
  uint64_t unit;        // its key; 0: nothing is timed
  uint64_t bytes;       // of a copy
  uint64_t begun_ns;    // when it was launched
  uint64_t gap_ns;      // in which the stream may have waited for it
  uint64_t assumed_ns;  // what it was charged, if nothing was known of it
  bool alone;           // no other unit of the process was in flight; the device was just in use
};

// A place in a lane. What stands before it is finished when its event is reached; without an event,
// when as much time has passed as that is expected to take.
struct Mark {
  CUevent event;  // null: by the clock
  uint64_t position;
  uint64_t recorded_ns;
  Timing timing;
};

struct alignas(64) Lane {
  static constexpr unsigned kMarks = 8;
  static constexpr uint64_t kGlanceNs = 20'000;

  CUstream stream;
  uint64_t submitted;

  alignas(64) uint64_t limit;  // no less than what is submitted, but for a unit that slipped by
  uint32_t owner;              // the thread; 0: never used
  uint32_t context;            // whose events its marks are

  uint64_t finished, marked;  // up to here; `marked`: by the marks that are pending
  uint64_t unknown_ns;        // a unit of unknown cost is in flight: more than it was charged,
  uint64_t unknown_end;       // up to here
  uint64_t reached_ns;        // when `finished` was seen
  uint64_t marked_at_ns;      // the time of the last mark
  uint64_t touched_ns;        // its thread last looked up
  uint64_t host_from_ns;      // its thread has been launching since; 0: it is not
  uint64_t quantum_ns;        // most of its leave
  uint64_t unit, unit_end;    // the key of the first unit since the last mark, and its position
  uint64_t unseen_ns;         // by the clock alone, since the last event
  uint64_t still, still_ns;   // submitted up to here, and no further since then
  uint64_t glanced_ns;        // when that was last seen
  CUevent reached;            // the event right before the first mark, if that is how it was seen
  CUevent awaited;            // behind what the stream waits for
  bool held_up;               // the stream waits for something else
  unsigned oldest, marks;
  Mark ring[kMarks];

  uint64_t done() const { return __atomic_load_n(&submitted, __ATOMIC_RELAXED); }
  uint64_t open_ns() const { return done() > marked ? done() - marked : 0; }
  uint64_t unfinished_ns() const { return done() > finished ? done() - finished : 0; }
  // The unit that is all there is since the last mark; 0: there are none, or several.
  uint64_t only_unit() const { return open_ns() != 0 && done() == unit_end ? unit : 0; }
  // With what its thread may submit without looking.
  uint64_t in_flight_ns() const {
    const uint64_t up_to = __atomic_load_n(&limit, __ATOMIC_RELAXED);
    return (up_to > finished ? up_to - finished : unfinished_ns()) + unknown_ns;
  }
  uint64_t leave_ns() const {
    const uint64_t up_to = __atomic_load_n(&limit, __ATOMIC_RELAXED), now = done();
    return up_to > now ? up_to - now : 0;
  }

  // An event stands in its stream that was not reached when last looked at.
  bool at_work() const { return marks != 0 && last().event != nullptr; }
  // When all before the first mark has run, if its stream does nothing else.
  uint64_t due_ns() const {
    const uint64_t from = first().recorded_ns > reached_ns ? first().recorded_ns : reached_ns;
    return from + (first().position - finished);
  }

  // Whether nothing was submitted for so long, and its thread did not look up. Frequent callers are
  // answered from what was there a moment ago, unless that might be long enough.
  bool still_for(uint64_t ns, uint64_t now) {
    if (now - glanced_ns < kGlanceNs && !still_beyond(ns, now)) return false;
    glanced_ns = now;
    if (still != done()) still_ns = now;
    still = done();
    return still_beyond(ns, now);
  }
  bool still_beyond(uint64_t ns, uint64_t now) const {
    const uint64_t since = still_ns > touched_ns ? still_ns : touched_ns;
    return now > since && now - since > ns;
  }

  // By its thread, of its leave; a unit that takes 0 is not known.
  bool takes(uint64_t ns) {
    const uint64_t then = submitted + ns;
    if (ns == 0 || then > __atomic_load_n(&limit, __ATOMIC_RELAXED)) return false;
    __atomic_store_n(&submitted, then, __ATOMIC_RELAXED);
    return true;
  }
  void submit(uint64_t ns) {
    __atomic_store_n(&submitted, submitted + ns, __ATOMIC_RELAXED);
    if (limit < submitted) allow(0);
  }
  // A unit that was not launched after all. It may have been taken for finished meanwhile.
  void take_back(uint64_t ns) {
    __atomic_store_n(&submitted, submitted - ns, __ATOMIC_RELAXED);
    if (finished > submitted) finished = submitted;
    if (marked > submitted) marked = submitted;
  }
  void allow(uint64_t more_ns) { __atomic_store_n(&limit, done() + more_ns, __ATOMIC_RELAXED); }

  // An event takes the place of the marks by the clock before it.
  void push(const Mark& mark) {
    unseen_ns = mark.event != nullptr ? 0 : unseen_ns + mark.position - marked;
    while (mark.event != nullptr && marks != 0 && last().event == nullptr) --marks;
    ring[(oldest + marks++) % kMarks] = mark;
    marked = mark.position;
    marked_at_ns = mark.recorded_ns;
  }
  const Mark& first() const { return ring[oldest]; }
  const Mark& last() const { return ring[(oldest + marks - 1) % kMarks]; }
  void pop() {
    finished = first().position;
    if (finished >= unknown_end) unknown_ns = 0;
    oldest = (oldest + 1) % kMarks;
    --marks;
  }
};

class Lanes {
 public:
  static constexpr unsigned kBits = 11, kSize = 1u << kBits;

  // The lane of the calling thread and a stream; null: none yet. Needs no lock.
  Lane* find(uint32_t thread, CUstream stream) {
    for (unsigned i = 0; i < kNear; ++i) {
      Lane& lane = lanes_[(home(thread, stream) + i) % kSize];
      if (lane.owner == thread && lane.stream == stream) return &lane;
      if (lane.owner == 0) break;
    }
    return nullptr;
  }

  // The same, or one that becomes it: a new one, or one in which nothing is in flight and that
  // no other thread looks for. Null: all are taken.
  Lane* claim(uint32_t thread, CUstream stream);

  // Of all lanes, cumulative.
  uint64_t submitted_ns() const;
  uint64_t finished_ns() const;
  uint64_t host_ns() const { return host_ns_; }
  // What was charged differs from what the unit takes, as has turned out.
  void correct(uint64_t charged_ns, uint64_t takes_ns) { retired_ns_ += takes_ns - charged_ns; }

  uint64_t in_flight_ns() const;
  uint64_t leave_ns() const;
  bool others_in_flight(const Lane& lane) const;
  // Whether other threads than the lane's have work, or leave for it, in other streams than the
  // lane's.
  bool others_beside(const Lane& lane) const;

  // The lane's thread launches from now on; the thread's time until now was its own. What several
  // threads do at once counts once.
  void host_begins(Lane& lane, uint64_t now) { lane.host_from_ns = now; }
  void host_ends(uint32_t thread, uint64_t now);

  template <typename F>
  void for_each(F&& visit) {
    for (unsigned i = 0; i < count_; ++i) visit(lanes_[used_[i]]);
  }

 private:
  static constexpr unsigned kNear = 16;
  static unsigned home(uint32_t thread, CUstream stream) {
    const uint64_t key = reinterpret_cast<uintptr_t>(stream) ^ static_cast<uint64_t>(thread) << 40;
    return static_cast<unsigned>((key * 0x9e3779b97f4a7c15u) >> (64 - kBits));  // Fibonacci
  }
  template <typename F>
  uint64_t sum(F&& of) const {
    uint64_t all = 0;
    for (unsigned i = 0; i < count_; ++i) all += of(lanes_[used_[i]]);
    return all;
  }

  unsigned count_;
  uint16_t used_[kSize];
  uint64_t retired_ns_;  // submitted and finished in lanes that became another's; corrections
  uint64_t host_ns_, host_until_ns_;
  Lane lanes_[kSize];
};

}  // namespace sluice::hook
