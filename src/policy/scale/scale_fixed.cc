#include "policy/scale/scale_fixed.h"

#include "policy/scale/cluster_plan.h"
#include "policy/scale/replicas.h"

namespace sluice::policy {

std::vector<Action> scale_fixed(Input& input) {
  ClusterPlan plan(input, /*movable=*/false);
  for (const Demand& d : plan.demands()) {
    const int count = least_replicas(d);
    hold_replicas(plan, d,
                  {count,
                   count,
                   stated_slice(plan, d),
                   count == 1 ? "One instance with a fixed slice always stays."
                              : std::to_string(count) +
                                    " instances with a fixed slice always stay (minReplicas).",
                   {{"replicas", count}}});
  }
  return plan.actions();
}

}  // namespace sluice::policy
