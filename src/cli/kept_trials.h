// The trials of a measurement that has not ended, in a file: a killed `sluice profile` goes on with
// them when it is started again. They count for the same model, type of device, machine and
// versions, and for an hour.
#pragma once

#include <string>
#include <vector>

#include "base/clock.h"
#include "control/profiles.h"

namespace sluice::cli {

// What a measurement depends on beside the model and the device: Sluice's version (and with it the
// runtime's libraries), the processor, the kernel.
std::string conditions_here();

class KeptTrials {
 public:
  // `of` names the model, the device's type and the conditions. An empty folder keeps nothing.
  KeptTrials(const std::string& folder, const control::Profile& of, UnixMillis now);

  // Of an earlier start.
  const MeasuredPoint* find(const Configuration& at) const;
  size_t count() const { return known_.size(); }
  // A trial that cannot be written is only lost to the next start.
  void keep(const MeasuredPoint& point);
  void forget();  // the measurement has ended

 private:
  std::string path_;  // empty: none
  control::Profile profile_;
  std::vector<MeasuredPoint> known_;
};

}  // namespace sluice::cli
