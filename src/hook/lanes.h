// The account of work in flight: what each thread has submitted to each stream (a lane), in
// nanoseconds that it is expected to take, and how much of that is seen finished.
//
// A lane's thread writes `submitted`, and may submit up to `limit` without looking further; all
// else is under the meter's lock. What is written at every launch has a cache line of its own, and
// what is in flight can be told without a look at it: a thread that reads another's line makes that
// one's next launch wait for it. Pure, but for asking the kernel whether a thread lives. Zeroed
// memory is an empty account; what a fork wiped is one.
#pragma once

#include <stdint.h>

#include "abi/cuda_types.h"

namespace sluice::hook {

// A place in a lane: an event recorded in its stream. What stands before it is finished when the
// event is reached. Without an event the clock stands for it: in a stream that runs dry again and
// again, what is in flight has run when so much time has passed.
struct Mark {
  CUevent event;  // null: by the clock
  uint64_t position;
  uint64_t recorded_ns;
  uint64_t unit;       // the key of the one unit since the mark before; 0: several
  uint64_t gap_ns;     // in which the stream may have waited for that unit
  uint64_t bytes;      // of the unit, if it is a copy
  uint64_t beside_ns;  // that other lanes had in flight then: it ran before the unit, or beside it
  bool exact;          // but for the gap the stream was at work since the mark before
  bool held_up;        // it waited for something else in between
  bool follows;        // right behind a unit: what others had submitted by then came before that
};

struct alignas(64) Lane {
  static constexpr unsigned kMarks = 8;
  static constexpr uint64_t kGlanceNs = 20'000;

  CUstream stream;
  uint64_t submitted;

  alignas(64) uint64_t limit;  // no less than what is submitted, but for a unit that slipped by
  uint32_t owner;              // the thread; 0: nobody had it yet
  uint32_t context;            // whose events its marks are

  uint64_t finished, marked;  // up to here; `marked` by events that are recorded
  uint64_t reached_ns;        // when `finished` was
  uint64_t marked_at_ns;      // the time at the last mark
  uint64_t touched_ns;        // its thread last looked up
  uint64_t quantum_ns;        // most of its leave
  uint64_t unit, unit_end;    // the key of the first unit since the last mark, and its position
  uint64_t unseen_ns;         // by the clock alone, since the last event
  uint64_t noted, noted_ns;   // submitted up to here when another's unit was last followed by an
                              // event, and when that was first so
  uint64_t still, still_ns;   // submitted up to here, and no further since then
  uint64_t glanced_ns;        // when that was last seen
  bool dry;                   // it had next to nothing to do when that was recorded
  bool held_up;               // since the last event its stream waits for something else
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
    return up_to > finished ? up_to - finished : unfinished_ns();
  }

  // An event stands in its stream that was not reached yet, when last looked.
  bool at_work() const { return marks != 0 && last().event != nullptr; }
  // When all before the first mark has run, if units take what is expected of them and a stream
  // that has work does it.
  uint64_t due_ns() const {
    const uint64_t from = first().recorded_ns > reached_ns ? first().recorded_ns : reached_ns;
    return from + (first().position - finished);
  }

  // An event is being recorded behind another lane's unit.
  void note(uint64_t now) {
    if (noted == done()) return;
    noted = done();
    noted_ns = now;
  }
  // Whether nothing was submitted for so long, and its thread did not look up. Who asks all the
  // time is answered from what was there a moment ago, until that might say yes.
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
    if (noted > submitted) noted = submitted;
  }
  void allow(uint64_t more_ns) { __atomic_store_n(&limit, done() + more_ns, __ATOMIC_RELAXED); }

  // An event takes the place of the clock.
  void push(const Mark& mark) {
    unseen_ns = mark.event != nullptr ? 0 : unseen_ns + mark.position - marked;
    while (mark.event != nullptr && marks != 0 && last().event == nullptr) --marks;
    Mark& kept = ring[(oldest + marks++) % kMarks];
    kept = mark;
    kept.held_up = held_up;
    if (held_up) {  // whatever its thread knew of
      kept.exact = false;
      kept.unit = 0;
    }
    held_up = held_up && mark.event == nullptr;
    marked = mark.position;
    marked_at_ns = mark.recorded_ns;
  }
  const Mark& first() const { return ring[oldest]; }
  const Mark& last() const { return ring[(oldest + marks - 1) % kMarks]; }
  void pop() {
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
  // nobody but this thread looks for. Null: all are taken.
  Lane* claim(uint32_t thread, CUstream stream);

  uint64_t in_flight_ns() const;
  // Whether other threads than the lane's have work, or leave for it, in other streams than the
  // lane's.
  bool others_beside(const Lane& lane) const;

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

  unsigned count_;
  uint16_t used_[kSize];
  Lane lanes_[kSize];
};

}  // namespace sluice::hook
