#include "policy/plan/job_sizes.h"

#include <algorithm>
#include <cstdint>
#include <limits>
#include <set>

namespace sluice::policy {

std::vector<size_t> best_sizes(std::span<const std::vector<JobSize>> jobs, int devices) {
  constexpr double kImpossible = -std::numeric_limits<double>::infinity();
  const auto all = static_cast<size_t>(std::max(devices, 0));
  // By devices: the best value of the jobs so far on at most so many, and the last one's size.
  std::vector<double> best(all + 1, 0), with(all + 1);
  std::vector<std::vector<uint16_t>> chosen(jobs.size());
  for (size_t j = 0; j < jobs.size(); ++j) {
    std::ranges::fill(with, kImpossible);
    chosen[j].resize(all + 1);
    for (size_t s = 0; s < jobs[j].size(); ++s) {
      const auto [size, value] = jobs[j][s];
      for (auto d = static_cast<size_t>(size); d <= all; ++d) {
        const double sum = best[d - static_cast<size_t>(size)] + value;
        if (sum <= with[d] + 1e-12) continue;
        with[d] = sum;
        chosen[j][d] = static_cast<uint16_t>(s);
      }
    }
    best.swap(with);
  }
  if (best[all] == kImpossible) return {};
  std::vector<size_t> sizes(jobs.size());
  size_t left = all;
  for (size_t j = jobs.size(); j-- > 0;) {
    sizes[j] = chosen[j][left];
    left -= static_cast<size_t>(jobs[j][sizes[j]].devices);
  }
  return sizes;
}

std::vector<int> sizes_between(int least, int most, int now, int node) {
  constexpr int kEach = 8;
  std::set<int> sizes;
  for (int k = least; k <= most; k += std::max(1, k < kEach ? 1 : k / 4)) sizes.insert(k);
  const auto add = [&](int k) {
    if (k >= least && k <= most) sizes.insert(k);
  };
  add(now), add(most);
  for (int64_t k = std::max(node, 1); k <= most; k *= 2) add(static_cast<int>(k));
  return {sizes.begin(), sizes.end()};
}

}  // namespace sluice::policy
