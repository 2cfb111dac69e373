// The timing events of one context, and the line of time that they stand on: the host's
// CLOCK_MONOTONIC, as far as the host has seen. All calls go to the driver's own functions, under
// the meter's lock, and never while anything captures. Events are recorded by a thread whose
// current context it is; who has another current may look at them, while the context lives.
//
// An error of the driver's is ours alone. From an event that cannot be made or looked at, or
// several streams that take none, this context has no events.
#pragma once

#include <stdint.h>

#include "abi/cuda_types.h"

namespace sluice::hook {

class ContextEvents {
 public:
  enum class State { kPending, kReached, kLost };

  // The context that is current, unless it is this one already; another's events are forgotten
  // (they went with it).
  bool is(CUcontext context, uint64_t id) const { return context_ == context && id_ == id; }
  void become(CUcontext context, uint64_t id);
  CUcontext context() const { return context_; }

  bool works() const { return context_ != nullptr && refusals_ < kRefusals && ending_ == 0; }

  // Somebody may be ending the context: its events are left alone until that has failed.
  void leave_alone() { ++ending_; }
  void use_again() { ending_ -= ending_ != 0 ? 1 : 0; }
  bool left_alone() const { return ending_ != 0; }

  // Whether a thread that has another context current may look at its events: it lives, as the
  // driver says. (Not every end of one is seen: CUDA's runtime has ways of its own.)
  bool may_be_looked_at() const;

  // Whether an event has been reached. The first should be one in an idle stream.
  bool has_line() const { return reference_ != nullptr; }

  // Records an event in `stream`; null where that is not possible.
  CUevent record(CUstream stream);
  // Whether an event is reached; then when, and the event is ours again.
  State look(CUevent event, uint64_t recorded, uint64_t* when);
  bool pending(CUevent event);
  // One that nobody looks at any more is ours again. Asks the driver nothing.
  void give_back(CUevent event);

 private:
  static constexpr unsigned kSpare = 128, kRefusals = 8;
  uint64_t when_reached(CUevent event, uint64_t recorded, uint64_t now);
  void keep(CUevent event);

  CUcontext context_;
  uint64_t id_;
  unsigned refusals_;  // one after the other
  unsigned ending_;    // so many calls
  CUevent reference_;  // reached at reference_ns_
  uint64_t reference_ns_;
  unsigned spares_;
  CUevent spare_[kSpare];
};

// The driver's number of the current context, which no other ever has; 0 where it cannot say.
uint64_t id_of_current_context();

}  // namespace sluice::hook
