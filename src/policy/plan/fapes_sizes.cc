#include "policy/plan/fapes_sizes.h"

#include <algorithm>
#include <limits>

namespace sluice::policy {
namespace {

constexpr int kFineGranules = 16;

int next_size(int size, int granule) {
  if (size < kFineGranules * granule) return size - size % granule + granule;
  return size + std::max(size / 4 / granule, 1) * granule;
}

}  // namespace

FapesSizes fapes_sizes(const Contender& job, int granule, int node) {
  FapesSizes all;
  granule = std::clamp(granule, 1, std::max(node, 1));
  // A job with fewer than a granule is possible only if it may have no more.
  const int first = std::min(std::max(job.least(), granule), job.most());
  if (node < 1 || first < job.least()) return all;
  const int most = job.job().state().step ? job.most() : first;
  double least_time = std::numeric_limits<double>::infinity();
  size_t fastest = 0;
  for (int size = first; size <= most; size = std::min(next_size(size, granule), most)) {
    const int nodes = size > node ? 2 : 1;
    const double throughput = job.throughput(size, nodes), goodput = job.goodput(size, nodes);
    if (throughput > 0) {
      all.sizes.push_back(size);
      least_time = std::min(least_time, size / throughput);
      if (throughput > all.throughput) {
        all.throughput = throughput;
        fastest = all.sizes.size();
      }
      if (goodput > all.goodput) {
        all.goodput = goodput;
        all.best = size;
      }
    }
    if (size == most) break;
  }
  all.sizes.resize(fastest);
  if (all.sizes.empty()) return all;
  all.device_seconds = least_time;
  all.alone = job.throughput(1, 1);
  if (all.alone <= 0)
    all.alone = job.throughput(all.sizes[0], all.sizes[0] > node ? 2 : 1) / all.sizes[0];
  return all;
}

FapesBounds fapes_bounds(const std::vector<const Contender*>& jobs,
                         const std::vector<const FapesSizes*>& sizes) {
  FapesBounds bounds{.least = std::numeric_limits<double>::infinity()};
  for (size_t j = 0; j < jobs.size(); ++j) {
    if (sizes[j]->sizes.empty()) continue;
    bounds.least = std::min(bounds.least, jobs[j]->left() / sizes[j]->throughput);
    bounds.most = std::max(bounds.most, jobs[j]->left() / sizes[j]->alone);
  }
  return bounds.most > 0 ? bounds : FapesBounds{};
}

}  // namespace sluice::policy
