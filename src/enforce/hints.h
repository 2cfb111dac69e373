// Hints from a client's page, checked before an arbiter receives them: the due time of its oldest
// waiting request, and the length of its iterations, by kind. The page is untrusted. Whatever it
// says,
//   - a due time lies between its first sight and an hour later, so that a client cannot claim to
//     have been late before it said so. A later due time counts as none.
//   - an iteration began after the end of the one before it was seen, so that claiming long cycles
//     takes as long as running them; and it is open for no longer.
// Arbiters bound what a client can gain within these bounds (arbiters/arbiter.h). Pure; one per
// process, not thread-safe.
#pragma once

#include "base/clock.h"
#include "enforce/page.h"

namespace sluice::node {

class Hints {
 public:
  explicit Hints(Time attached) : ended_after_(attached), looked_(attached) {}

  struct Told {
    Time due = Time::max();    // max: nothing waits
    Nanos cycle{0};            // of the last iteration that ended since the last poll; 0: none did
    uint32_t kind = 0;         // of it, as reported: any value
    Time begun = Time::max();  // of the open iteration; max: none is open
    uint32_t last_kind = 0;    // of the last that ended: what the open one is taken for
    uint64_t begun_submitted = 0;  // as reported: any value
  };
  // Called once a decision; `now` does not go back.
  Told hear(const HintWords& words, Time now);

 private:
  HintWords last_;
  Time due_ = Time::max();
  Time ended_after_;  // the last iteration
  Time looked_;
};

}  // namespace sluice::node
