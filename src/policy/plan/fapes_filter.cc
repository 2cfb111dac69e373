#include "policy/plan/fapes_filter.h"

#include <algorithm>
#include <tuple>

namespace sluice::policy {
namespace {

constexpr size_t kMostSelected = 64;

// Deals `pool` devices evenly to the jobs of `sharing`, which come in that order: each its least,
// then a granule at a time. Returns the devices of each.
std::vector<int> share_evenly(std::span<const FilterJob> jobs, const std::vector<size_t>& sharing,
                              int pool, int granule) {
  std::vector<int> shares(sharing.size());
  const auto give = [&](size_t i, int devices) {
    const FilterJob& job = jobs[sharing[i]];
    const int given = std::min(devices, job.most - shares[i]);
    if (given <= 0 || given > pool || shares[i] + given < job.least) return false;
    shares[i] += given;
    pool -= given;
    return true;
  };
  for (size_t i = 0; i < sharing.size(); ++i) give(i, std::max(granule, jobs[sharing[i]].least));
  for (bool given = true; given;) {
    given = false;
    for (size_t i = 0; i < sharing.size() && pool > 0; ++i)
      if (shares[i] > 0 && give(i, std::min(granule, pool))) given = true;
  }
  return shares;
}

double mean_achievement(std::span<const FilterJob> jobs, const std::vector<size_t>& sharing,
                        const std::vector<int>& shares) {
  double sum = 0;
  for (size_t i = 0; i < sharing.size(); ++i)
    if (shares[i] > 0) sum += jobs[sharing[i]].expected(shares[i]);
  return sum / static_cast<double>(sharing.size());
}

}  // namespace

double achievement(double past_goodput, double past_seconds, double coming_goodput,
                   double coming_seconds, double best_goodput) {
  const double seconds = past_seconds + coming_seconds;
  if (seconds <= 0 || best_goodput <= 0) return 0;
  const double mean = (past_goodput * past_seconds + coming_goodput * coming_seconds) / seconds;
  return std::clamp(mean / best_goodput, 0.0, 1.0);
}

std::vector<size_t> fapes_filter(std::span<const FilterJob> jobs, int free, int granule) {
  std::vector<size_t> sharing, running;
  for (size_t j = 0; j < jobs.size(); ++j) {
    if (jobs[j].devices == 0)
      sharing.push_back(j);
    else if (!jobs[j].ends_soon)
      running.push_back(j);
  }
  // The longest waiting come first.
  std::ranges::stable_sort(sharing,
                           [&](size_t a, size_t b) { return jobs[a].waited > jobs[b].waited; });
  std::ranges::stable_sort(running, {}, [&](size_t j) { return jobs[j].achievement; });

  int pool = free;
  double now = 0;  // the sum of those selected
  for (size_t k = 0; k < std::min(running.size(), kMostSelected); ++k) {
    const FilterJob& job = jobs[running[k]];
    sharing.push_back(running[k]);
    pool += job.devices;
    now += job.achievement;
    const double mean = mean_achievement(jobs, sharing, share_evenly(jobs, sharing, pool, granule));
    if (mean > now / static_cast<double>(k + 1) + 1e-9) {
      running.resize(k + 1);
      return running;
    }
  }
  return {};
}

}  // namespace sluice::policy
