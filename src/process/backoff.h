// Exponential backoff: the wait before a failed attempt is repeated doubles each time, until it is
// reset.
#pragma once

#include <algorithm>

#include "base/clock.h"

namespace sluice::node {

class Backoff {
 public:
  Backoff(Nanos shortest, Nanos longest)
      : shortest_(shortest), longest_(longest), following_(shortest) {}

  Nanos next() {
    const Nanos now = following_;
    following_ = std::min(2 * following_, longest_);
    return now;
  }
  void reset() { following_ = shortest_; }

 private:
  const Nanos shortest_, longest_;
  Nanos following_;
};

}  // namespace sluice::node
