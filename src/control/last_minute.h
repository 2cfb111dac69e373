// LastMinute: what a function was asked for in the last minute, in sums of about a second each, so
// that a question about the minute reads few numbers. A plain value.
#pragma once

#include <cstdint>
#include <deque>

#include "base/clock.h"

namespace sluice::control {

struct GapSums {  // of the gaps between two requests
  uint64_t count = 0;
  double sum = 0, squares = 0;  // in seconds
};

class LastMinute {
 public:
  void add(Nanos elapsed, double concurrency_seconds, const GapSums& gaps);
  // Time in which nothing was asked for.
  void rest(Nanos elapsed);

  double concurrency_peak() const;  // the largest mean over one of these seconds
  GapSums gaps() const;

 private:
  static constexpr Nanos kLength = Seconds(60);
  static constexpr Nanos kSecond = Millis(900);  // at least; ticks come early

  struct Second {
    Nanos elapsed{0};
    double concurrency_seconds = 0;
    GapSums gaps;
    bool at_rest = false;  // all are 0; it may stand for many
  };
  Second& open();
  void forget_old();

  std::deque<Second> seconds_;
  Nanos held_{0};  // the sum of their lengths
};

}  // namespace sluice::control
