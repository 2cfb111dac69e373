#include "profile/grid_plan.h"

namespace sluice::profile {

std::optional<Configuration> GridPlan::next(const Search& search, const Trials& trials) const {
  const Grid& g = search.grid;
  const size_t batches = g.batches.size(), sms = g.sms.size();
  const size_t done = trials.size();
  if (done >= batches * sms * g.quotas.size()) return std::nullopt;
  const size_t quota = g.quotas.size() - 1 - done / (batches * sms);
  return Configuration{g.batches[done % batches], g.sms[done / batches % sms], g.quotas[quota]};
}

}  // namespace sluice::profile
