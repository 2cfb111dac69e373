// Who dies, or is stopped, at which labelled step (wire/permit_steps.h). A test makes a Plan before
// it forks, or hands it to programs by their environment; every process of it then notes the steps
// that it comes to, and the one whose part is the plan's ends, or stops, at the plan's label, once.
// Labels are compared by name. For tests only.
#pragma once

#include <sys/types.h>

#include <set>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/fd.h"
#include "tests/steps_state.h"

namespace sluice {

class Plan {
 public:
  Plan();  // one at a time; in memory that its processes share
  ~Plan();
  Plan(const Plan&) = delete;

  // The next process of that part that comes to `label` gets `signal`.
  void arm(Part part, const std::string& label, int signal);
  void disarm();
  pid_t hit() const;                         // who got it; 0: nobody yet
  bool wait_for_hit(Nanos patience) const;   // whether somebody got it
  std::set<std::string> reached() const;     // by any process of a part
  std::string environment(Part part) const;  // of kStepsVariable, for a program that plays it

  static void play(Part part);  // what this process is from now on

 private:
  Fd file_;
  StepsState* state_ = nullptr;
};

// The labels in the sources, below src/, in their order.
std::vector<std::string> labels_in(const std::vector<std::string>& sources);
std::vector<std::string> all_labels();

}  // namespace sluice
