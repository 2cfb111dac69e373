// A meter that reports at once that nothing was used: for the cost of a permit while it lasts. Not
// thread-safe, like every meter.
#pragma once

#include <utility>

#include "enforce/meter.h"

namespace sluice::bench {

class BlindMeter : public node::Meter {
 public:
  std::optional<node::Reading> poll(Time now, bool) override {
    if (std::exchange(last_, now) == now) return std::nullopt;
    return node::Reading{Nanos(0), now};
  }
  Time last_active() const override { return last_; }
  Nanos lag() const override { return Millis(12); }

 private:
  Time last_{};
};

}  // namespace sluice::bench
