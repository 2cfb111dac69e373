// Kills or stops a process at a labelled step (wire/permit_steps.h). A test makes a Plan before it
// forks, or hands it to programs by their environment. Every process of it then notes the steps
// that it reaches. The process with the plan's role ends, or stops, at the plan's label, once.
// Labels are compared by name. For tests only.
#pragma once

#include <sys/types.h>

#include <set>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/fd.h"
#include "tests/support/steps_state.h"

namespace sluice {

class Plan {
 public:
  Plan();  // one at a time; in memory that its processes share
  ~Plan();
  Plan(const Plan&) = delete;

  // The next process of that role that comes to `label` gets `signal`.
  void arm(Role role, const std::string& label, int signal);
  void disarm();
  pid_t hit() const;                         // the process that got it; 0: none yet
  bool wait_for_hit(Nanos patience) const;   // whether a process got it
  std::set<std::string> reached() const;     // by any process with a role
  std::string environment(Role role) const;  // of kStepsVariable, for a program that plays it

  static void play(Role role);  // the role of this process from now on

 private:
  Fd file_;
  StepsState* state_ = nullptr;
};

// Returns the labels in the sources, below src/, in order.
std::vector<std::string> labels_in(const std::vector<std::string>& sources);
std::vector<std::string> all_labels();

}  // namespace sluice
