// What few trials say of all configurations: a model of the time that is fitted to them
// (time_model.h), and what trials near a configuration say beyond it (predict/residuals.h). A plain
// value.
#pragma once

#include <span>
#include <vector>

#include "predict/residuals.h"
#include "profile/time_model.h"

namespace sluice::profile {

class TrialsModel {
 public:
  // Trials without a median are left out. Costs n³ ÷ 3 multiplications.
  explicit TrialsModel(std::span<const MeasuredPoint> trials);

  // Returns 0 where no trial has a median.
  Nanos operator()(const Configuration& c) const;
  // Returns the deviation of the time's logarithm.
  double deviation(const Configuration& c) const { return residuals_.at(c).deviation; }

 private:
  TimeModel time_;
  predict::Residuals residuals_;
};

// Returns the points, and a filled one for each other combination of their batches, sms and quotas,
// ascending: between scattered points nothing could be interpolated.
std::vector<MeasuredPoint> filled(std::span<const MeasuredPoint> points);

}  // namespace sluice::profile
