#include "policy/scale/scale_fixed.h"

#include "policy/scale/cluster_plan.h"
#include "policy/scale/replicas.h"

namespace sluice::policy {

std::vector<Action> scale_fixed(Input& input) {
  const Predictor& predictor = input.predictor;
  const std::vector<Demand> all = demands(input);
  ClusterPlan plan(input, /*movable=*/false);
  plan.stop_retired(all);
  const std::vector<const Device*> types = one_of_each_type(input.snapshot.devices);
  for (const Demand& d : all) {
    const int count = least_replicas(d);
    const Slice slice = stated_slice(d, predictor, types);
    hold_replicas(plan, d,
                  {count,
                   count,
                   slice,
                   count == 1 ? "One instance with a fixed slice always stays."
                              : std::to_string(count) +
                                    " instances with a fixed slice always stay (minReplicas).",
                   {{"replicas", count}}},
                  predictor);
  }
  return plan.actions();
}

}  // namespace sluice::policy
