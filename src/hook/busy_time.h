// Which stretches of time the device is known to have worked for this process, whatever the
// streams: their union, so that work that overlaps is counted once. Stretches may come late and in
// any order.
//
// Keeps the latest kKept stretches that do not touch. What reaches further back than those counts
// in full: never too little. Pure; whoever calls has the meter's lock. Zeroed memory is an empty
// one.
#pragma once

#include <stdint.h>

namespace sluice::hook {

class BusyTime {
 public:
  static constexpr unsigned kKept = 64;

  // The device worked from `begin` to `end`: how much of that was not known.
  uint64_t cover(uint64_t begin, uint64_t end);

  // It worked for `ns` somewhere between, nobody knows when: takes time that is not covered yet,
  // the earliest first, for what comes to be known later is later as a rule. How much there was.
  uint64_t place(uint64_t begin, uint64_t end, uint64_t ns);

 private:
  struct Stretch {
    uint64_t begin, end;
  };
  // The stretches first … last − 1 become one.
  void replace(unsigned first, unsigned last, Stretch merged);

  unsigned count_;
  Stretch kept_[kKept];  // by time, apart from each other
};

}  // namespace sluice::hook
