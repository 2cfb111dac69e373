// The points that a profile measures, in their order, and how long each takes as far as known.
// Pure; not thread-safe.
#pragma once

#include <map>
#include <vector>

#include "base/clock.h"
#include "model/predictor.h"

namespace sluice::cli {

struct ProfilePlan {
  static constexpr int kLeastRuns = 3;  // of a point, after one to warm up

  std::vector<Configuration> points;
  Nanos per_point{0};          // the least time at each
  std::map<int, Nanos> whole;  // a batch's time on a whole device, as measured

  // A batch that was not measured takes as long as the next smaller one, in proportion. Returns
  // per_point if no smaller one was measured.
  Nanos estimate(const Configuration& at) const;
  void learn(const MeasuredPoint& point);
  Nanos left_after(size_t done) const;
};

// Returns the share of a trial's time in which it kept its cores or SMs busy. At least 0.1 % once
// they worked at all: 0 stands for what was not measured.
Share utilisation(Nanos busy, Nanos elapsed);

}  // namespace sluice::cli
