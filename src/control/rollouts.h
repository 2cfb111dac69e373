// Rollouts: the progress of newest revisions that are to replace the serving ones.
//
// Plain state without side effects. One thread, the loop's.
#pragma once

#include <map>
#include <string>

#include "control/function_state.h"

namespace sluice::control {

class Rollouts {
 public:
  struct Settings {
    int tries = 3;                 // starts that may fail before a rollout is given up
    Nanos patience = Seconds(30);  // a new revision may take to reach its full size
  };
  explicit Rollouts(Settings settings) : settings_(settings) {}

  // Returns the revision that the function's instances should have: the newest, or the serving one
  // if the newest was given up.
  int wanted(const StoredFunction& f) const;
  // Returns why the newest revision was given up; empty if it was not.
  const std::string& failed(const FunctionName& f) const;
  void restore(const FunctionName& f, const std::string& failed);
  // Another revision is the newest, or none.
  void forget(const FunctionName& f) { rollouts_.erase(f); }

  // The revision has failed to start so often. Returns whether this ends its rollout.
  bool give_up(const StoredFunction& f, int revision, int failures, const std::string& error);
  // Returns whether the newest revision takes over: it has the instances that its share of the
  // traffic needs, or, after a long time, at least one. A canary leaves the old one serving beside
  // it.
  bool takes_over(const FunctionState& f, Time now);

 private:
  struct Rollout {
    Time ready_since{};  // Time{}: no instance of the newest revision was ready yet
    std::string failed;
  };
  const Settings settings_;
  std::map<FunctionName, Rollout> rollouts_;
};

}  // namespace sluice::control
