// What plan_elastic remembers from one decision to the next, in the numbers of a Memory: when a job
// last changed, since when a worker has been slow, and when inference needed a device. Without it
// all of this begins anew. A time after now is of another boot's clock, and counts for nothing.
//
// Over an Input that must outlive it. Not thread-safe.
#pragma once

#include <string>
#include <vector>

#include "policy/input.h"

namespace sluice::policy {

class JobMemory {
 public:
  // Forgets jobs and workers that have gone, and devices that were needed longer than `calm` ago.
  JobMemory(Input& input, Nanos calm);

  void note_change(const FunctionName& job);
  int changes(const FunctionName& job) const;  // noted so far
  bool changed_within(const FunctionName& job, Nanos calm) const;

  // Returns for how long the worker has been slow without a break; 0: it is not.
  Nanos slow_for(const InstanceId& worker, bool slow);

  void note_need(const DeviceId& device);
  std::vector<DeviceId> needed() const;

 private:
  Nanos since(const std::vector<double>& at) const;  // negative: not known
  std::vector<double> now() const;

  Input& input_;
};

}  // namespace sluice::policy
