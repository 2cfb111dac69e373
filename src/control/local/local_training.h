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

#include "control/local/checkpoint_copies.h"
#include "control/local/disk_thread.h"
#include "control/local/job_folder.h"
#include "control/training.h"
#include "train/job_server.h"

namespace sluice::control {

struct LocalTrainingSettings {
  std::string data;     // the platform's folder: sockets in run, jobs' folders, models' copies
  std::string trainer;  // the program sluice-trainer; beside it, python has modules for commands
  CheckpointCopies copies{};
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
  ListedCheckpoints checkpoints(const FunctionName& f) override;
  Result<void> go_back(const FunctionName& f, int64_t step) override;
  std::optional<train::JobStatus> status(const FunctionName& f) const override;
  Result<ExecOfProgram> worker(const FunctionName& f, const InstanceId& worker,
                               int threads) override;

 private:
  struct Kept {
    int revision = 0;
    std::string name{};  // revision_id()
    std::string key;     // that its workers bear
    TrainingSpec spec;
    JobFolder folder;
    PreparedJob prepared;
    std::string trouble;            // with its files
    std::string newest_checkpoint;  // when older ones were last forgotten
    std::string copied_checkpoint;  // the newest when copies were last made
    int copies_wait = 0;            // calls of keep(), after one failed
    ListedCheckpoints checkpoints;
    // Of the disk's thread; valid while it works.
    std::future<Result<PreparedJob>> preparing;
    std::future<Result<void>> taking;
    std::future<std::vector<ListedCheckpoint>> looking;
    std::future<Result<void>> copying;  // of the copies' thread
    bool taken = false;                 // what the finished job has left
  };

  void begin(const Revision& r);
  CopiedJob copied(const Kept& job) const;
  void look(Kept& job);
  Result<PreparedJob> prepare(const JobFolder& folder, const TrainingSpec& spec, bool again,
                              std::optional<int64_t> back_to, const CopiedJob& copied) const;
  DiskThread& thread_of_copies() { return settings_.copies.on() ? copier_ : disk_; }
  void take_checkpoints(Kept& job);
  void end(const FunctionName& f);
  void step(Kept& job, const std::string& name);
  void add(Kept& job, const std::string& name);
  void see_checkpoints(Kept& job, const train::JobStatus& now);
  std::vector<std::string> command_of(const Kept& job) const;

  const LocalTrainingSettings settings_;
  std::unique_ptr<train::JobServer> server_;
  std::set<FunctionName> retried_;
  std::map<std::string, int64_t> gone_back_;  // revisions, to the checkpoint of a step
  std::map<FunctionName, Kept> jobs_;
  // What the steps of all jobs of a module over a data set have taken. Under the server's lock.
  std::map<std::pair<std::string, std::string>, std::shared_ptr<train::StepHistory>> steps_;
  // And their all-reduces, of all modules. Under the server's lock.
  const std::shared_ptr<train::AllReduceHistory> all_reduces_ =
      std::make_shared<train::AllReduceHistory>();
  DiskThread disk_, copier_;  // end first; slow copies hold up no results
};

}  // namespace sluice::control
