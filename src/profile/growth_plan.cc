#include "profile/growth_plan.h"

#include "policy/scale/growth_search.h"

namespace sluice::profile {

// The search is run anew with what was measured, up to the first trial that is missing.
std::optional<Configuration> GrowthPlan::next(const Search& search, const Trials& trials) const {
  if (search.grid.batches.empty() || search.grid.sms.empty() || search.grid.quotas.empty())
    return std::nullopt;
  const bool along_sm = search.grid.sms.size() > 1;
  std::optional<Configuration> missing;
  policy::growth_search(
      {.in_time = search.in_time, .largest_batch = search.grid.batches.back()},
      [&](int batch, Share share) -> std::optional<Nanos> {
        if (missing) return std::nullopt;
        Configuration at{batch, search.grid.sms.back(), search.grid.quotas.back()};
        (along_sm ? at.sm : at.quota) = share;
        const MeasuredPoint* known = find(trials, at);
        if (known == nullptr) missing = at;
        if (known == nullptr || known->median <= Nanos(0)) return std::nullopt;
        return known->median;
      });
  return missing;
}

}  // namespace sluice::profile
