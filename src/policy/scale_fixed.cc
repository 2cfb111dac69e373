#include "policy/scale_fixed.h"

#include "policy/cluster_plan.h"
#include "policy/replicas.h"

namespace sluice::policy {

std::vector<Action> scale_fixed(Turn& turn) {
  const Predictor& predictor = turn.predictor;
  const std::vector<Demand> all = demands(turn);
  ClusterPlan plan(turn.snapshot, turn.mine, /*movable=*/false);
  plan.stop_retired(all);
  for (const Demand& d : all) {
    const int count = least_replicas(d);
    Slice slice = d.spec->slice.value_or(Slice{kWhole, {kWhole, kWhole}, 0});
    if (slice.memory == 0) slice.memory = instance_memory(d, predictor);
    hold_replicas(plan, d,
                  {count,
                   count,
                   slice,
                   instance_batch(d, slice, predictor),
                   count == 1 ? "One instance with a fixed slice always stays."
                              : std::to_string(count) +
                                    " instances with a fixed slice always stay (minReplicas).",
                   {{"replicas", count}}},
                  predictor);
  }
  return plan.actions();
}

}  // namespace sluice::policy
