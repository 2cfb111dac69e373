#include "policy/scale/growth_search.h"

#include <algorithm>
#include <cmath>

namespace sluice::policy {
namespace {

Share limit_of(Share request, double factor) {
  const auto limit = static_cast<int>(std::floor(request.permille * factor));
  return {std::clamp(limit, request.permille, kWhole.permille)};
}

Share search(const std::function<double(Share)>& throughput, double goal, double near,
             int& trials) {
  Share low = kNone, high = kWhole;
  while (high - low > Share{1}) {
    const Share middle{(low.permille + high.permille) / 2};
    const double reached = throughput(middle);
    ++trials;
    if (std::abs(reached - goal) <= near) return middle;
    (reached < goal ? low : high) = middle;
  }
  return high;
}

}  // namespace

std::optional<Star> growth_search(const GrowthBounds& bounds, const BatchTime& time) {
  std::optional<Star> star;
  double best = 0;
  int trials = 0, batch = 1;
  Share share = bounds.step;
  while (batch <= bounds.largest_batch && share <= kWhole) {
    const std::optional<Nanos> t = time(batch, share);
    ++trials;
    if (!t || *t <= Nanos(0) || *t > bounds.in_time) {
      // The last step may be a shorter one.
      share = share == kWhole ? kWhole + bounds.step : std::min(share + bounds.step, kWhole);
      continue;
    }
    const double efficacy = batch / (seconds(*t) * share.fraction());
    if (efficacy < best) break;
    best = efficacy;
    star = Star{batch, {share, limit_of(share, bounds.limit_factor)}, *t, 0};
    batch *= 2;
  }
  if (star) star->trials = trials;
  return star;
}

TrainingShares training_search(const std::function<double(Share)>& throughput) {
  constexpr double kRequested = 0.8, kNear = 0.02;
  TrainingShares found;
  const double whole = throughput(kWhole);
  ++found.trials;
  const auto at = [&](double part) {
    return search(throughput, part * whole, kNear * part * whole, found.trials);
  };
  found.quota.request = at(kRequested);
  found.quota.limit = std::max(at(1), found.quota.request);
  return found;
}

}  // namespace sluice::policy
