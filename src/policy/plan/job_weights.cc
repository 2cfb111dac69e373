#include "policy/plan/job_weights.h"

#include <algorithm>
#include <cmath>

namespace sluice::policy {
namespace {

constexpr double kLeastLeft = 10;  // seconds: what ends soon ends before it is changed

// Returns seconds of work left for one worker; 0: unknown.
double left_of(const Job& job) {
  const JobView& state = job.state();
  if (!job.wants_workers() || state.samples <= 0) return 0;
  const auto samples = static_cast<double>(std::max<int64_t>(state.samples - state.done, 0));
  return std::max(samples / goodput_alone(job), kLeastLeft);
}

}  // namespace

std::vector<double> job_weights(const std::vector<Job>& jobs, std::span<const double> exponents) {
  std::vector<double> left, known;
  for (const Job& job : jobs) {
    left.push_back(left_of(job));
    if (left.back() > 0) known.push_back(left.back());
  }
  double median = 1;
  if (!known.empty()) {
    const auto middle = known.begin() + static_cast<std::ptrdiff_t>(known.size() / 2);
    std::ranges::nth_element(known, middle);
    median = *middle;
  }
  std::vector<double> weights;
  for (size_t j = 0; j < jobs.size(); ++j)
    weights.push_back(std::pow((left[j] > 0 ? left[j] : median) / median, -exponents[j]));
  return weights;
}

}  // namespace sluice::policy
