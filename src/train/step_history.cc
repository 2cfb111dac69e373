#include "train/step_history.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "predict/step_fit.h"

namespace sluice::train {
namespace {

constexpr double kLeastWeight = 0.05;  // of a new step: the averages look back on 20

}  // namespace

void StepHistory::add(int workers, int batch, double step, double wait) {
  if (workers < 1 || batch < 1 || !(step > 0) || !std::isfinite(step)) return;
  Mean& mean = means_[{workers, batch}];
  const double weight = std::max(1.0 / ++mean.count, kLeastWeight);
  mean.step += weight * (step - mean.step);
  mean.wait += weight * (std::clamp(wait, 0.0, step) - mean.wait);
  stale_ = true;
}

const std::optional<StepModel>& StepHistory::model() const {
  if (!stale_) return model_;
  std::vector<predict::StepSample> samples;
  for (const auto& [configuration, mean] : means_)
    samples.push_back(
        {.workers = configuration.first,
         .local_batch = static_cast<double>(configuration.second) / configuration.first,
         .step_seconds = mean.step,
         .sync_seconds = mean.wait});
  model_ = predict::fit_step_model(samples);
  stale_ = false;
  return model_;
}

}  // namespace sluice::train
