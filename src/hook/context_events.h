// The timing events of one context. All calls go to the driver's own functions, under the meter's
// lock, and never while anything captures. Events are recorded by a thread whose current context it
// is; a thread with another current context may look at them while this one lives.
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

  // A call may be ending the context: its events are left alone until that has failed.
  void leave_alone() { ++ending_; }
  void use_again() { ending_ -= ending_ != 0 ? 1 : 0; }
  bool left_alone() const { return ending_ != 0; }

  // Whether a thread that has another context current may look at its events: it lives, as the
  // driver says. (Not every end of one is seen: CUDA's runtime has ways of its own.)
  bool may_be_looked_at() const;

  // Records an event in `stream`; null where that is not possible.
  CUevent record(CUstream stream);
  State look(CUevent event);
  // From one reached event to a later one; 0: the driver cannot say.
  static uint64_t between_ns(CUevent first, CUevent second);
  // One that is not looked at any more may be recorded again. Asks the driver nothing; null is
  // none.
  void give_back(CUevent event);

 private:
  static constexpr unsigned kSpare = 128, kRefusals = 8;

  CUcontext context_;
  uint64_t id_;
  unsigned refusals_;  // one after the other
  unsigned ending_;    // so many calls
  unsigned spares_;
  CUevent spare_[kSpare];
};

// The driver's number of the current context, which no other ever has; 0 where it cannot say.
uint64_t id_of_current_context();

}  // namespace sluice::hook
