// Copies of jobs' checkpoints in a folder outside the platform's, perhaps a mounted one: a job goes
// on from them where its own are gone (FaPES's model storage).
//
//   FOLDER/platform                         says whose it is, as the platform's own folder does
//   FOLDER/NAMESPACE/NAME@REVISION/job      what the job is of, as text
//                           /checkpoint-STEP/   as in the job's folder (train/checkpoints.h)
//   FOLDER/NAMESPACE/NAME@REVISION.other-N/ the copies of an earlier job of that name
//
// Used by one thread, except for on(); its calls take as long as that disk does.
#pragma once

#include <atomic>
#include <set>
#include <string>
#include <vector>

#include "base/result.h"
#include "model/function.h"

namespace sluice::control {

struct CopiedJob {
  std::string name;  // as revision_id()
  std::string of;    // model, data set, length and so on; other jobs' copies are not used
  std::string work;  // where its own checkpoints are; its workers write there
  std::string home;  // the folder around it, which only the platform writes to
};

class CheckpointCopies {
 public:
  CheckpointCopies() = default;  // keeps none
  // Returns kInvalid if the folder is missing, is not this user's, or if others may write to it.
  static Result<void> check(const std::string& folder);
  // The same; marks the folder as that of the platform with this data. Returns kConflict if the
  // platform has marked a folder before and this one is without its mark: it is not mounted.
  static Result<CheckpointCopies> in(const std::string& folder, const std::string& data);

  bool on() const { return !folder_.empty(); }
  // Copies the newest checkpoint, and removes all but the newest `kept` copies.
  Result<void> keep(const CopiedJob& job, int kept, const std::atomic<bool>& stopped) const;
  // Brings the copies that are newer than the job's own checkpoints. Those that cannot be read are
  // passed over, and named in `trouble`. Returns an error if the folder cannot be read.
  Result<void> bring_back(const CopiedJob& job, std::string& trouble,
                          const std::atomic<bool>& stopped) const;
  std::set<int64_t> steps(const CopiedJob& job) const;
  // Removes the copies of later steps: the job goes back.
  Result<void> forget_after(const CopiedJob& job, int64_t step) const;
  // Removes those of all revisions of a function.
  void forget(const FunctionName& f) const;

 private:
  std::string path_of(const CopiedJob& job) const { return folder_ + "/" + job.name; }
  Result<bool> has(const CopiedJob& job) const;
  Result<void> make_room_for(const CopiedJob& job) const;

  std::string folder_;
};

}  // namespace sluice::control
