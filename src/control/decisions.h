// Decisions: the loop's decisions with their reasons and effects, for the log and the journal. A
// decision that comes to nothing is recorded when it begins and now and then, not at every tick.
//
// Plain state, except for the log. One thread, the loop's.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "control/journal.h"

namespace sluice::control {

class Decisions {
 public:
  // Makes the function known; `last` is its last decision by the earlier loop.
  void know(const FunctionName& f, std::optional<Decision> last);
  void forget(const FunctionName& f) { functions_.erase(f); }

  void record(Decision d);
  // Records a decision that comes to nothing unless it was recorded lately, or has not lasted for
  // `least`. After a longer `pause` between two of the kind it begins anew.
  // REQUIRES: know(d.function).
  void record_vain(Decision d, Nanos least, Nanos pause);
  // nullptr: none, or an unknown function. One that came to nothing is passed over once it is not
  // decided any more: what it wanted has come, or is not wanted.
  const Decision* last(const FunctionName& f, UnixMillis now) const;

  // Returns those that the journal lacks.
  std::vector<Decision> take() { return std::exchange(recorded_, {}); }
  void written(const std::vector<Decision>& numbered);
  // Returns the number of the newest that this loop has written; 0: none yet.
  int64_t newest() const { return newest_; }
  // The journal failed. Keeps the newest thousand.
  void not_written(std::vector<Decision> decisions);

 private:
  // A decision that comes to nothing.
  struct Vain {
    UnixMillis since = 0;               // when it began
    UnixMillis recorded = 0, last = 0;  // 0: not yet; the last time it was decided
    int64_t repeated = 0;               // since its record
  };
  struct OfFunction {
    std::optional<Decision> last, effective;  // `effective`: the last one that came to something
    std::map<std::string, Vain> vain;         // by action and rule

    void take(const Decision& d);
  };
  std::map<FunctionName, OfFunction> functions_;
  std::vector<Decision> recorded_;
  int64_t newest_ = 0;
};

}  // namespace sluice::control
