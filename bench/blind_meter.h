// A meter that has seen everything and found nothing: for what a permit costs while it lasts. Not
// thread-safe, like every meter.
#pragma once

#include <utility>

#include "node/meter.h"

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
