// The Training port: the controllers of training jobs, as the loop sees them. Each training
// function has one job, of its newest revision. Workers are instances that the loop starts. The
// local adapter is a job server in this process (local_training.h).
//
// One thread, the loop's, except for check(). No other call waits for a disk.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "model/birth.h"
#include "model/function.h"
#include "model/instance.h"
#include "model/training.h"
#include "train/job_status.h"

namespace sluice::control {

// A job's checkpoints, for listings.
struct ListedCheckpoint {
  train::JobPosition at;
  int64_t bytes = 0;
  UnixMillis saved = 0;
  bool set_aside = false;  // the job has gone back from it
  bool copied = false;     // outside of the platform's folder
};
struct ListedCheckpoints {
  std::vector<ListedCheckpoint> all;  // by step
  std::string trouble;                // with the copies; empty: none
};

class Training {
 public:
  virtual ~Training() = default;
  // Checks that workers will be able to read what a job names; kInvalid says what to do. Any
  // thread; takes as long as a disk does.
  virtual Result<void> check(const TrainingSpec& spec) const = 0;
  // Makes the revision's job if it is not there, and ends another revision's. Idempotent.
  virtual void keep(const Revision& revision) = 0;
  // Ends the function's job, and forgets its checkpoints. Returns, for its user, where what its
  // finished jobs have left is kept; it is removed if `with_models`.
  virtual std::vector<std::string> remove(const FunctionName& f, bool with_models) = 0;
  // Those workers' processes run.
  virtual void run(const FunctionName& f, const std::vector<InstanceId>& workers) = 0;
  // That worker's process has ended; `error` says how, and is empty if it was stopped. Returns
  // false if it had done nothing.
  virtual bool ended(const FunctionName& f, const InstanceId& worker, const std::string& error) = 0;
  // A job that has stopped for a trouble begins again, from its newest checkpoint.
  virtual void retry(const FunctionName& f) = 0;
  virtual ListedCheckpoints checkpoints(const FunctionName&) { return {}; }
  // A job begins again from that step's checkpoint; later ones are set aside. Returns kNotFound
  // with the steps that are there, kUnavailable if its files are just being prepared. REQUIRES: it
  // has no workers.
  virtual Result<void> go_back(const FunctionName&, int64_t) {
    return Error{ErrorKind::kUnavailable, "no checkpoints are kept here"};
  }
  // Returns nullopt while there is no controller.
  virtual std::optional<train::JobStatus> status(const FunctionName& f) const = 0;
  // Returns the program of a worker that is to be started, which computes with so many threads.
  virtual Result<ExecOfProgram> worker(const FunctionName& f, const InstanceId& worker,
                                       int threads) = 0;
};

// Returns nullopt for an inference function. `has_workers`: some are alive, perhaps of an earlier
// loop, which go on while this one prepares the job's files.
std::optional<JobView> job_view(const FunctionSpec& spec,
                                const std::optional<train::JobStatus>& status, Time submitted,
                                bool has_workers);

}  // namespace sluice::control
