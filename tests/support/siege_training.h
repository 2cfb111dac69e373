// A part of the benchmark `siege`: training jobs on a platform whose workers and processes are
// killed and stopped, and whose checkpoints are damaged. Returns only figures. One thread calls it.
#pragma once

#include <string>
#include <vector>

#include "base/result.h"
#include "tests/support/hostile_users.h"
#include "tests/support/platform_bed.h"

namespace sluice::bench {

struct TrainingSiege {
  PlatformSettings platform;
  std::string demonstrations;  // the folder with `ledger`, of tools/make_training
  std::string script;          // tests/programs/elastic_ledger.py
  std::string hostile;         // tests/programs/hostile_user.py; empty: none
  Nanos hostile_lasts{};       // before the events, and as long a reference before that
  int events = 500;            // kills, stops and damages
  int epochs = 60;             // of each job: 1,000 samples in steps of 10
  bool waits = true;           // after an event, until the jobs that it struck have gone on
  // Whether some workers are left stopped. The platform ends such a one within a minute.
  bool leave_stopped = true;
  uint64_t seed = 1;
};

struct TrainingSieged {
  int events = 0;
  int finished = 0, paused = 0;  // jobs; a paused one is resumed
  int failed = 0;                // jobs that ended otherwise, or paused without a reason
  int wrong = 0;                 // finished jobs whose parameters show a sample lost or used twice
  int leftovers = 0;             // processes, after the platform's end
  double longest_silence = 0;    // seconds in which a job's listing did not change
  Hostilities hostilities;
  std::vector<double> api_ms, api_busy_ms;       // beside hostile users, and beside busy ones
  double control_mib = 0, control_busy_mib = 0;  // its peak, after each
  std::vector<std::string> notes;
};
Result<TrainingSieged> besiege_training(const TrainingSiege& with);

}  // namespace sluice::bench
