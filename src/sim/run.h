// Plays a scenario under a bundle: the live control loop over the simulated cluster, in virtual
// time. The same scenario, bundle and seed give the same outcome on every machine. One thread.
#pragma once

#include <functional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "control/accounting.h"
#include "sim/front_door.h"
#include "sim/gantt.h"
#include "sim/job_outcome.h"
#include "sim/scenario.h"

namespace sluice::sim {

// What happened to a function's requests that arrived after the scenario's settling time.
struct FunctionOutcome {
  FunctionName function;
  Nanos objective{0};
  uint64_t requests = 0, ok = 0, shed = 0, failed = 0, timed_out = 0;
  uint64_t open = 0;                     // unanswered at the end
  uint64_t cold_starts = 0;              // requests that waited for an instance to start
  std::vector<uint64_t> violations;      // late or not answered, at each multiple of the objective
  Nanos p50{0}, p90{0}, p95{0}, p99{0};  // of answered ones
  control::Account account;
};

struct Outcome {
  std::string policy;                      // as played_as() names it
  std::vector<FunctionOutcome> functions;  // by name
  std::vector<JobOutcome> jobs;            // that arrived, in order
  JobsOutcome all_jobs;
  Nanos simulated{0};         // after the settling time
  Nanos lasted{0};            // from the start, the settling time included
  bool stopped = false;       // before the scenario's end
  double device_seconds = 0;  // of devices with at least one instance
  int devices_max = 0;
  double free_share = 0;   // of devices in use, the mean area that no request holds
  double free_memory = 0;  // the same of their memory
  double utilisation = 0;  // the part of all devices' time that instances computed
  uint64_t decisions = 0, arbiter_steps = 0;
};

// A second of one function, or of the cluster.
struct TimelineRow {
  int64_t second = 0;
  FunctionName function;
  uint64_t arrivals = 0, ok = 0, late = 0, refused = 0;
  Nanos p95{0};
  int instances = 0, ready = 0;
  int64_t area = 0;  // in millionths of a device
  int devices = 0;   // in use by any function
};

struct Watch {
  // Called once a simulated second, with the part of the play that is done: of its duration, or of
  // its jobs where it ends with them. Returns whether to go on.
  std::function<bool(double done)> on_second = [](double) { return true; };
  // Called at the end of each simulated second for each function.
  std::function<void(const TimelineRow&)> on_row;
  // Called at the end of each simulated second with all instances, by id, and the nodes on loan.
  std::function<void(Nanos passed, const std::vector<Occupant>&, const std::set<std::string>& lent)>
      on_occupants;
  // Called at the end of each request.
  std::function<void(const Answer&)> on_answer;
  // As ControlSettings::on_phase.
  std::function<void(std::string_view phase)> on_phase = [](std::string_view) {};
};

// Returns "POLICY/PLAN"; "POLICY" without a plan.
std::string played_as(const std::string& policy, const std::string& plan);

// The plan is the platform's; empty: it has none, and jobs have those of their bundles. Returns
// kInvalid if the loop refuses the scenario's functions, bundle or plan; kInternal with the
// property that broke.
Result<Outcome> simulate(const Scenario& scenario, const std::string& policy,
                         const Watch& watch = {}, const std::string& plan = "");

}  // namespace sluice::sim
