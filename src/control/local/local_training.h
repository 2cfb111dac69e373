// The training jobs of this machine: the job server in this process, and the jobs' folders.
//
// The port's threads. Files are prepared and copied by a thread of its own.
#pragma once

#include <future>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "control/local/disk_thread.h"
#include "control/local/job_folder.h"
#include "control/training.h"
#include "train/job_server.h"

namespace sluice::control {

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
