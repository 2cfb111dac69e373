// Measurements: what each instance did in the last seconds, from differences of its node's and the
// gateway's counts since its birth.
//
// Plain state without side effects. One thread, the loop's.
#pragma once

#include <array>
#include <map>
#include <memory>
#include <optional>
#include <vector>

#include "control/function_state.h"
#include "model/snapshot.h"

namespace sluice::control {

class Measurements {
 public:
  // Call once a second, while node and gateway answer. Forgets ended instances.
  void step(const std::vector<ObservedInstance>& instances, Functions& functions, Time now);
  // Returns the last step's measurements. They never change: the next step makes new ones. Null
  // before the first.
  const std::shared_ptr<const MeasuredInstances>& latest() const { return latest_; }
  // Returns for how many steps, a second each, an instance has been measured.
  size_t steps_of(const InstanceId& id) const;

 private:
  struct Sample {
    Time at{};
    Nanos used{0}, answering{0};
    uint64_t answered = 0, inferences = 0, late = 0, slow = 0;
    std::optional<ProgramCounts> program;
  };
  class Book {
   public:
    // A counter that decreased began anew, and so does its history.
    void add(const Sample& sample);
    void measure(InstanceMeasurements& m) const;
    size_t steps() const { return added_ - 1; }

   private:
    static constexpr size_t kSamples = 11;  // the ends of ten seconds
    std::array<Sample, kSamples> samples_;  // the n-th: [n mod kSamples]
    size_t added_ = 0;
  };

  std::map<InstanceId, Book> books_;
  std::shared_ptr<const MeasuredInstances> latest_;
};

}  // namespace sluice::control
