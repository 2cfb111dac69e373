#include "sim/scenario_job.h"

#include <algorithm>

namespace sluice::sim {

double noise_at(const JobModel& model, double part) {
  if (model.noise.empty()) return 0;
  const double at = std::clamp(part, 0.0, 1.0) * static_cast<double>(model.noise.size() - 1);
  const auto below = static_cast<size_t>(at);
  if (below + 1 >= model.noise.size()) return model.noise.back();
  const double beyond = at - static_cast<double>(below);
  return model.noise[below] + beyond * (model.noise[below + 1] - model.noise[below]);
}

}  // namespace sluice::sim
