// Notices: the nodes' reports that a user needs, each once:
//   - a device begins to fail;
//   - a program ended with its device;
//   - a node does not hold an instance to its slice;
//   - instances ended when their node was rebooted.
//
// Plain state without side effects. One thread, the loop's.
#pragma once

#include <map>
#include <set>
#include <string>
#include <vector>

#include "control/cluster.h"
#include "control/journal.h"

namespace sluice::control {

class Notices {
 public:
  Notices() = default;
  // `noticed`: the newest notice of each subject, by earlier loops.
  explicit Notices(std::map<std::string, Reason> noticed);

  // Returns the changes between two observations. The first `before` is empty.
  std::vector<Decision> step(const Observation& before, const Observation& now, UnixMillis wall);

 private:
  void faults(const Observation& before, const Observation& now);
  void ended(const Observation& before, const Observation& now);
  void ungated(const Observation& before, const Observation& now);
  void unheld(const Observation& now);
  void rebooted(const Observation& before, const Observation& now);
  bool noticed(const std::string& subject, const std::string& text) const;
  void add(Decision d);

  std::map<std::string, Reason> noticed_;  // by earlier loops, and of devices; the last by subject
  std::set<InstanceId> unheld_;            // at the last step
  std::vector<Decision> found_;            // in this step
};

}  // namespace sluice::control
