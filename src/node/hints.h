// What a client's page says beyond its claims, made harmless before an arbiter hears of it: the due
// time of its oldest waiting request, and how long its iterations take, by kind. A page is hostile
// until shown otherwise; whatever stands there,
//   - a due time lies between the moment when it was first heard and an hour later, so that nobody
//     is late since before it said so; none lies farther: that says nothing;
//   - an iteration began after the one before it was seen to end, so that long cycles take as long
//     to be claimed as to be lived through.
// What can be gained within these bounds the arbiters bound themselves (policy/share.h). Pure; one
// per process, not thread-safe.
#pragma once

#include "base/clock.h"
#include "node/page.h"

namespace sluice::node {

class Hints {
 public:
  explicit Hints(Time attached) : ended_after_(attached), looked_(attached) {}

  struct Told {
    Time due = Time::max();  // max: nothing waits
    Nanos cycle{0};          // of the last iteration that ended since the last look; 0: none did
    uint32_t kind = 0;       // … whatever it says
  };
  // Once a decision; `now` does not go back.
  Told hear(const HintWords& words, Time now);

 private:
  HintWords last_;
  Time due_ = Time::max();
  Time ended_after_;  // the last iteration
  Time looked_;
};

}  // namespace sluice::node
