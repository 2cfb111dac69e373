// Who dies, or is stopped, at which labelled step (wire/permit_steps.h). A test makes a Plan before
// it forks; every process of it then notes the steps that it comes to, and the one whose part is
// the plan's ends, or stops, at the plan's label, once. Labels are compared by name. For tests
// only.
#pragma once

#include <sys/types.h>

#include <atomic>
#include <set>
#include <string>
#include <vector>

#include "base/clock.h"

namespace sluice {

enum class Part { kNone, kClient, kDaemon };

class Plan {
 public:
  Plan();  // one at a time; in memory that children share
  ~Plan();
  Plan(const Plan&) = delete;

  // The next process of that part that comes to `label` gets `signal`.
  void arm(Part part, const std::string& label, int signal);
  pid_t hit() const;  // who got it; 0: nobody yet
  bool wait_for_hit(Nanos patience) const;
  std::set<std::string> reached() const;  // by any process of a part

  static void play(Part part);  // what this process is from now on
  static void come_to(const char* label);

 private:
  struct State;
  State* state_;
};

// The labels in a source file, in their order.
std::vector<std::string> labels_in(const std::string& path);

}  // namespace sluice
