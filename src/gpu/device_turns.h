// Which client of a device held it last, where clients use it by turns. To a driver's own account
// of processes an interval with several holders is chance: it looks at the device a few times a
// second, and puts all of the time between two looks down to the process that it finds (NVML on an
// H200: of eight processes that were busy in equal turns it told one 95 %, and the others nothing).
// So a meter believes the account of an interval only if no other client held the device.
//
// Shared by the meters of one device; the arbiter's thread owns it.
#pragma once

#include <utility>

#include "base/clock.h"

namespace sluice::node {

class DeviceTurns {
 public:
  void begin(const void* holder, Time now) {
    if (std::exchange(last_, holder) != holder) before_at_ = last_at_;
    last_at_ = now;
  }
  // Returns when a turn of another holder began last; long ago if none ever did.
  Time last_of_others(const void* holder) const { return holder == last_ ? before_at_ : last_at_; }

 private:
  static constexpr Time kLongAgo = Time(Nanos::min() / 2);

  const void* last_ = nullptr;
  Time last_at_ = kLongAgo, before_at_ = kLongAgo;
};

}  // namespace sluice::node
