#include "profile/fitted_plan.h"

#include <algorithm>
#include <iterator>

#include "profile/time_model.h"

namespace sluice::profile {
namespace {

// The next smaller quota, unless it was tried. What a throttle does on few sm is not what it does
// on many, so the model is too careful there; where the time stays, the model learns it and goes on
// from there.
std::optional<Configuration> with_less_time(const Grid& g, Configuration c, const Trials& trials) {
  const auto at = std::ranges::find(g.quotas, c.quota);
  if (at == g.quotas.begin()) return std::nullopt;
  c.quota = *std::prev(at);
  if (find(trials, c) != nullptr) return std::nullopt;
  return c;
}

}  // namespace

std::optional<Configuration> FittedPlan::next(const Search& search, const Trials& trials) const {
  const Grid& g = search.grid;
  if (g.batches.empty() || g.sms.empty() || g.quotas.empty()) return std::nullopt;
  for (const Configuration& c : corners(g))
    if (find(trials, c) == nullptr) return c;
  const TimeModel model = TimeModel::fit(trials);
  std::optional<Configuration> best;
  double most = 0;
  for (const int batch : g.batches)
    for (const Share sm : g.sms)
      for (const Share quota : g.quotas) {
        const Configuration c{batch, sm, quota};
        const MeasuredPoint* known = find(trials, c);
        if (known != nullptr && known->median <= Nanos(0)) continue;
        const Nanos time = known != nullptr ? known->median : from_seconds(model(c));
        if (time <= Nanos(0) || time > search.in_time || efficacy(c, time) <= most) continue;
        most = efficacy(c, time);
        best = c;
      }
  const Configuration fastest{g.batches.front(), g.sms.back(), g.quotas.back()};
  if (find(trials, best.value_or(fastest)) == nullptr) return best.value_or(fastest);
  return best ? with_less_time(g, *best, trials) : std::nullopt;
}

}  // namespace sluice::profile
