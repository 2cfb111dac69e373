#include "policy/plan/plans.h"

#include "policy/plan/plan_dilu.h"
#include "policy/plan/plan_elastic.h"
#include "policy/plan/plan_elasticflow.h"
#include "policy/plan/plan_fapes.h"
#include "policy/plan/plan_fixed.h"
#include "policy/plan/plan_optimus.h"
#include "policy/plan/plan_pollux.h"
#include "policy/plan/plan_tiresias.h"

namespace sluice::policy {

std::span<const Plan> plans() {
  static const Plan kPlans[] = {
      {"sluice", "what inference leaves of the devices, by the goodput that each adds",
       plan_elastic, Settings(ElasticSettings{}), kElasticMemory},
      {"fifo", "whole idle devices, first come first", plan_fifo, {}, 0},
      {"sjf", "whole idle devices, the shortest first", plan_sjf, {}, 0},
      {"optimus", "whole devices, each where it saves most time (Optimus)", plan_optimus,
       Settings(OptimusSettings{}), 0},
      {"tiresias", "whole devices, those first that have had least (Tiresias)", plan_tiresias,
       Settings(TiresiasSettings{}), 0},
      {"elasticflow", "powers of two of whole devices, by throughput (ElasticFlow)",
       plan_elasticflow, Settings(ElasticFlowSettings{}), 0},
      {"fapes", "whole devices over coming rounds, by their prices (FaPES)", plan_fapes,
       Settings(FapesSettings{}), 1},
      {"dilu", "one share of a device a worker, found by trials, beside others (Dilu)", plan_dilu,
       Settings(DiluPlanSettings{}), kDiluMemory},
      {"pollux", "whole devices, by a genetic search for fair goodput (Pollux)", plan_pollux,
       Settings(PolluxSettings{}), 0},
  };
  return kPlans;
}

const Plan* find_plan(std::string_view name) {
  for (const Plan& plan : plans())
    if (plan.name == name) return &plan;
  return nullptr;
}

std::vector<std::string> plan_names() {
  std::vector<std::string> names;
  for (const Plan& plan : plans()) names.emplace_back(plan.name);
  return names;
}

}  // namespace sluice::policy
