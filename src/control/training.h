// The Training port: the controllers of training jobs, as the loop sees them. Each training function
// has one job, of its newest revision. The local adapter is the job server in this process; its
// workers are instances that the loop starts.
//
// One thread, the loop's, except for check(). No other call waits for a disk: files are prepared and
// copied by a thread of their own.
#pragma once

#include <future>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "base/result.h"
#include "control/disk_thread.h"
#include "control/job_folder.h"
#include "model/birth.h"
#include "model/function.h"
#include "model/instance.h"
#include "model/training.h"
#include "train/job_server.h"

namespace sluice::control {

class Training {
 public:
  virtual ~Training() = default;
  // Checks that workers will be able to read what a job names; kInvalid says what to do. Any thread;
  // takes as long as a disk does.
  virtual Result<void> check(const TrainingSpec& spec) const = 0;
  // Makes the revision's job if it is not there, and ends another revision's. Idempotent.
  virtual void keep(const Revision& revision) = 0;
  // Ends the function's job, and forgets its checkpoints. Returns, for its user, where what its
  // finished jobs have left is kept; it is removed if `with_models`.
  virtual std::vector<std::string> remove(const FunctionName& f, bool with_models) = 0;
  // Those workers' processes run.
  virtual void run(const FunctionName& f, const std::vector<InstanceId>& workers) = 0;
  // That worker's process has ended; `error` says how, and is empty if it was stopped. Returns false
  // if it had done nothing.
  virtual bool ended(const FunctionName& f, const InstanceId& worker, const std::string& error) = 0;
  // A job that has stopped for a trouble begins again, from its newest checkpoint.
  virtual void retry(const FunctionName& f) = 0;
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

struct LocalTrainingSettings {
  std::string data;     // the platform's folder: sockets in run, jobs' folders, models' copies
  std::string trainer;  // the program sluice-trainer; beside it, python has modules for commands
};

class LocalTraining : public Training {
 public:
  LocalTraining(LocalTrainingSettings settings, std::unique_ptr<train::JobServer> server);

  Result<void> check(const TrainingSpec& spec) const override;
  void keep(const Revision& revision) override;
  std::vector<std::string> remove(const FunctionName& f, bool with_models) override;
  void run(const FunctionName& f, const std::vector<InstanceId>& workers) override;
  bool ended(const FunctionName& f, const InstanceId& worker, const std::string& error) override;
  void retry(const FunctionName& f) override;
  std::optional<train::JobStatus> status(const FunctionName& f) const override;
  Result<ExecOfProgram> worker(const FunctionName& f, const InstanceId& worker,
                               int threads) override;

 private:
  struct Kept {
    int revision = 0;
    std::string key;  // that its workers bear
    TrainingSpec spec;
    JobFolder folder;
    PreparedJob prepared;
    std::string trouble;            // with its files
    std::string newest_checkpoint;  // when older ones were last forgotten
    // Of the disk's thread; valid while it works.
    std::future<Result<PreparedJob>> preparing;
    std::future<Result<void>> taking;
    bool taken = false;  // what the finished job has left
  };

  void begin(const Revision& r, bool again);
  void end(const FunctionName& f);
  void step(Kept& job, const std::string& name);
  void add(Kept& job, const std::string& name);
  void prune(Kept& job, const train::JobStatus& now);
  std::vector<std::string> command_of(const Kept& job) const;

  const LocalTrainingSettings settings_;
  std::unique_ptr<train::JobServer> server_;
  std::set<FunctionName> retried_;
  std::map<FunctionName, Kept> jobs_;
  DiskThread disk_;  // ends first
};

}  // namespace sluice::control
