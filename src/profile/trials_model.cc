#include "profile/trials_model.h"

#include <cmath>

#include "profile/search.h"

namespace sluice::profile {
namespace {

std::vector<predict::Ratio> beyond(const TimeModel& time, std::span<const MeasuredPoint> trials) {
  std::vector<predict::Ratio> ratios;
  for (const MeasuredPoint& p : trials)
    if (const double said = time(p.at); p.median > Nanos(0) && said > 0)
      ratios.push_back({p.at, std::log(seconds(p.median) / said)});
  return ratios;
}

}  // namespace

TrialsModel::TrialsModel(std::span<const MeasuredPoint> trials)
    : time_(TimeModel::fit(trials)), residuals_(predict::Kernel(), beyond(time_, trials)) {}

Nanos TrialsModel::operator()(const Configuration& c) const {
  return from_seconds(time_(c) * std::exp(residuals_.at(c).log));
}

std::vector<MeasuredPoint> filled(std::span<const MeasuredPoint> points) {
  const TrialsModel model(points);
  const Grid grid = grid_of(points);
  std::vector<MeasuredPoint> all;
  for (const int batch : grid.batches)
    for (const Share sm : grid.sms)
      for (const Share quota : grid.quotas) {
        const Configuration at{batch, sm, quota};
        if (const MeasuredPoint* measured = find(points, at); measured != nullptr)
          all.push_back(*measured);
        else if (const Nanos time = model(at); time > Nanos(0))
          all.push_back({.at = at, .median = time, .filled = true});
      }
  return all;
}

}  // namespace sluice::profile
