// A scenario: a cluster, functions, their profiles, their loads, training jobs, and faults. A plain
// value; scenario_file.h reads one, and docs/simulator.md describes every field.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "control/profiles.h"
#include "model/function.h"
#include "policy/loans.h"
#include "sim/arrivals.h"
#include "sim/cluster.h"
#include "sim/fault.h"
#include "sim/scenario_job.h"

namespace sluice::sim {

// When requests of a function arrive: by a plan of rates, or at the given times.
struct Load {
  FunctionName function;
  RatePlan plan;
  Gaps gaps;
  std::vector<Nanos> times;      // ascending; in place of the plan, if there are any
  int inferences = 1;            // of each request
  std::optional<uint64_t> seed;  // of its arrivals; nothing: one of the scenario's seed
};

// The loop has to know within this what a node runs (audit.h).
inline constexpr Nanos kMostTick = Seconds(2);

struct Scenario {
  std::string name;
  Nanos duration = Seconds(60);
  Nanos settle{0};  // at the start, not counted
  uint64_t seed = 1;
  std::vector<std::string> policies;     // bundles
  std::vector<std::string> plans;        // each played under each bundle; empty: their own
  std::vector<double> slo_multiples{1};  // of each objective, at which violations are counted
  ClusterPlan cluster;
  std::vector<FunctionSpec> functions;
  std::vector<control::Profile> profiles;
  std::vector<Load> loads;
  std::vector<Fault> faults;
  std::vector<ScenarioJob> jobs;  // by arrival
  JobPhysics job_physics;
  policy::LoanRules loans;
  Nanos tick = Millis(250);  // the period of the control loop; at most kMostTick
};

}  // namespace sluice::sim
