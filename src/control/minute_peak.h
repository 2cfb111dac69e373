// MinutePeak: the largest of the numbers that came in the last minute, by a clock that does not
// jump. A plain value.
#pragma once

#include <deque>

#include "base/clock.h"

namespace sluice::control {

class MinutePeak {
 public:
  void add(Time now, double number);
  // Returns the largest one at the last add(); 0 if there was none.
  double most() const { return falling_.empty() ? 0 : falling_.front().number; }

 private:
  struct At {
    Time time;
    double number;
  };
  // Each is larger than all that came later: those alone can still become the largest.
  std::deque<At> falling_;
};

}  // namespace sluice::control
