#include "policy/scale/demand.h"

#include <algorithm>
#include <limits>
#include <tuple>

namespace sluice::policy {

std::vector<Demand> demands(const Input& input) {
  std::vector<Demand> all;
  for (const FunctionView& view : input.snapshot.functions) {
    const auto own = std::lower_bound(input.mine.begin(), input.mine.end(), view.spec.name);
    if (own == input.mine.end() || *own != view.spec.name || !view.spec.is_inference()) continue;
    const Settings* settings = &input.settings[own - input.mine.begin()];
    all.push_back({&view, &view.spec, settings, view.revision,
                   view.spec.inference().canary_traffic_percent / 100.0});
    for (const OlderRevision& older : view.older) {
      if (older.traffic_percent <= 0) continue;
      all.push_back({&view, &older.spec, settings, older.revision, older.traffic_percent / 100.0});
    }
  }
  const auto rank = [](const Demand& d) {
    return std::tuple(!d.view->violating, -d.view->spec.priority, d.function(), -d.revision);
  };
  std::sort(all.begin(), all.end(),
            [&](const Demand& a, const Demand& b) { return rank(a) < rank(b); });
  return all;
}

int least_replicas(const Demand& demand) {
  return std::max(1, demand.inference().min_replicas);
}

int most_replicas(const Demand& demand) {
  if (demand.inference().max_replicas <= 0) return std::numeric_limits<int>::max();
  return std::max(demand.inference().max_replicas, demand.inference().min_replicas);
}

}  // namespace sluice::policy
