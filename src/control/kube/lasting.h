// Lasting: how long conditions have held without a break. A step checks the conditions, each by a
// name of its own; one that a step does not find begins anew.
//
// Plain state. One thread.
#pragma once

#include <map>
#include <string>
#include <utility>

#include "base/clock.h"

namespace sluice::control {

class Lasting {
 public:
  void begin_step(Time now) {
    before_ = std::exchange(since_, {});
    now_ = now;
  }
  // The condition holds. Returns whether it has for `least`.
  bool for_as_long_as(Nanos least, const std::string& condition) {
    const auto known = before_.find(condition);
    const Time since = known != before_.end() ? known->second : now_;
    since_.emplace(condition, since);
    return now_ - since >= least;
  }

 private:
  Time now_{};
  std::map<std::string, Time> before_, since_;
};

}  // namespace sluice::control
