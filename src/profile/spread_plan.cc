#include "profile/spread_plan.h"

#include "profile/trials_model.h"

namespace sluice::profile {
namespace {

constexpr size_t kTrials = 20;

}  // namespace

std::optional<Configuration> SpreadPlan::next(const Search& search, const Trials& trials) const {
  const Grid& g = search.grid;
  for (const Configuration& c : corners(g))
    if (find(trials, c) == nullptr) return c;
  if (trials.size() >= kTrials) return std::nullopt;
  const TrialsModel model(trials);
  std::optional<Configuration> least_sure;
  double most = 0;
  for (const int batch : g.batches)
    for (const Share sm : g.sms)
      for (const Share quota : g.quotas) {
        const Configuration c{batch, sm, quota};
        if (find(trials, c) != nullptr) continue;
        const double deviation = model.deviation(c);
        if (deviation <= most) continue;
        most = deviation;
        least_sure = c;
      }
  return least_sure;
}

}  // namespace sluice::profile
