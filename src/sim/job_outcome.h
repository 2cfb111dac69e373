// What became of a scenario's training jobs under a policy. Plain values, and the figures over all
// jobs, by a pure function.
#pragma once

#include <optional>
#include <vector>

#include "control/accounting.h"
#include "sim/job.h"

namespace sluice::sim {

struct JobOutcome {
  FunctionName job;
  Nanos arrived{0};                         // since the scenario's start, as those below
  std::optional<Nanos> began, finished;     // its first step, the end of its last one
  double samples = 0, goodput_samples = 0;  // trained; weighted by their efficiency
  double workers_mean = 0;  // from its first worker's start to its end, or the run's
  int workers_max = 0;
  int64_t reforms = 0;  // generations behind the first
  control::Account account;

  // From the arrival to the end. REQUIRES: it has finished.
  Nanos completion_time() const { return *finished - arrived; }
};

// Of all jobs of a run.
struct JobsOutcome {
  size_t arrived = 0, finished = 0;
  Nanos completion_mean{0}, completion_p95{0};  // of those that finished
  Nanos queueing_mean{0};  // from the arrival to the first step, or to the run's end
  Nanos makespan{0};       // from the first arrival to the last end
  double goodput = 0;  // weighted samples per second of a job's time from its first step on, mean
  double workers_mean = 0;  // over the jobs
  int64_t reforms = 0;
};

// `end`: of the run.
JobOutcome outcome_of(const ScenarioJob& plan, const JobRecord& record, Time start, Time end);
JobsOutcome summary_of(const std::vector<JobOutcome>& jobs, Nanos end);
// Returns weighted samples per second from the first step on; 0 if it took none.
double goodput_of(const JobOutcome& job, Nanos end);

}  // namespace sluice::sim
