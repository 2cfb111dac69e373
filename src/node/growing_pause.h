// How long to wait before what has failed is tried again: twice as long each time, until there is
// reason to begin anew.
#pragma once

#include <algorithm>

#include "base/clock.h"

namespace sluice::node {

class GrowingPause {
 public:
  GrowingPause(Nanos shortest, Nanos longest)
      : shortest_(shortest), longest_(longest), following_(shortest) {}

  Nanos next() {
    const Nanos now = following_;
    following_ = std::min(2 * following_, longest_);
    return now;
  }
  void begin_anew() { following_ = shortest_; }

 private:
  const Nanos shortest_, longest_;
  Nanos following_;
};

}  // namespace sluice::node
