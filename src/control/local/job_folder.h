// A job's folder, DATA/artifacts/NAMESPACE/NAME@REVISION. It is the platform's, and closed: only
// the job's workers may enter it, which run under one user id (node/program_home.h).
//
//   module.pt, dataset/, command/         what workers read (job_inputs.h), until it has finished
//   work/                                 the workers' own: checkpoints, the trained module, what a
//                                         script writes. Nothing in it is trusted
//   model.pt, model.json, function.yaml   the trained model, copied by the platform
//   finished                              the job has
//
// A value. Its calls take as long as the disk does.
#pragma once

#include <atomic>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "model/function.h"
#include "train/messages.h"

namespace sluice::control {

// The paths under which workers find what they read.
struct JobInputs {
  std::string module, dataset;
  std::vector<std::string> command;
};
struct PreparedJob {
  JobInputs inputs;
  std::optional<train::Saved> resume;  // the newest checkpoint
  bool finished = false;
  int64_t samples = 0;  // of an epoch, of a finished job; 0: an earlier version did not keep it
};

class JobFolder {
 public:
  // `data`: the platform's folder.
  JobFolder(const std::string& data, const FunctionName& f, int revision);

  const std::string& path() const { return path_; }
  std::string work() const { return path_ + "/work"; }

  // Makes the folder, and puts in it what workers read. `again`: also what is there already, for
  // the user may have changed it. One that an earlier version made becomes like this; its
  // checkpoints stay.
  Result<PreparedJob> prepare(const TrainingSpec& spec, const std::string& models, bool again,
                              const std::atomic<bool>& stopped) const;
  // Copies the model that the workers trained, if they have trained one, and makes what they left
  // the platform's, so that their user id is free. finished() from then on.
  Result<void> take_results(bool has_model, int64_t samples,
                            const std::atomic<bool>& stopped) const;
  // Makes what the workers left the platform's. A later worker has another user id, and goes on
  // from the checkpoints.
  void release() const;
  bool finished() const;
  std::optional<train::Saved> newest_checkpoint() const;
  std::string model() const;  // empty: none

 private:
  std::string converted() const { return path_ + ".new"; }
  Result<void> convert(const TrainingSpec& spec, const std::atomic<bool>& stopped) const;
  Result<std::string> bring_module(const ModelSpec& model, const std::string& models,
                                   const std::atomic<bool>& stopped) const;

  FunctionName function_;
  std::string path_;
};

// Takes all revisions' folders of a function out of use, so that a function of the same name begins
// anew. Unless `with_models`, what finished jobs have left is kept below DATA/trained.
struct Retired {
  std::vector<std::string> kept;     // models, or folders of what scripts have left
  std::vector<std::string> removed;  // folders that no job uses; to be deleted
};
Retired retire_job_folders(const std::string& data, const FunctionName& f, bool with_models);

// Returns those that a former process has not deleted.
std::vector<std::string> retired_before(const std::string& data);

}  // namespace sluice::control
