// A job's folder of artifacts: checkpoints of its training state, and the trained model.
//
//   checkpoint-STEP/state     the parameters, the optimizer's state
//   checkpoint-STEP/manifest  JSON: version, job, step, epoch, sample, bytes, checksum (CRC-32)
//   set-aside-STEP/           a checkpoint that the job has gone back from: it is not begun with
//   model.pt                  the trained model, before the platform has taken it
//
// A checkpoint is written aside and renamed, so that it is there whole or not at all, also after
// the machine's death. Workers write the folder: nothing in it is trusted, or waited for. Free
// functions; one process writes at a time.
#pragma once

#include <atomic>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/result.h"
#include "train/samples.h"

namespace sluice::train {

struct Checkpoint {
  std::string path;   // of its folder
  std::string model;  // what it is of: the parameters' names and shapes, as text
  JobPosition at;
  int64_t bytes = 0;
  UnixMillis saved = 0;
};

// One contiguous piece of the state.
struct StatePiece {
  char* data = nullptr;
  size_t bytes = 0;
};

// Writes the pieces one after the other. Returns kInternal with the path on a full disk, and leaves
// the earlier checkpoints as they are. One of the same step that is there already stays.
Result<Checkpoint> save_checkpoint(const std::string& folder, const std::string& model,
                                   const JobPosition& at, const std::vector<StatePiece>& pieces);

// Removes all but the newest, and all but the newest of those that are set aside.
void forget_checkpoints(const std::string& folder, int kept);

// Reads a checkpoint into the pieces. Returns kInvalid if it is another model's, shorter or longer
// than the pieces, or damaged; they hold anything then.
Result<Checkpoint> load_checkpoint(const std::string& path, const std::string& model,
                                   const std::vector<StatePiece>& pieces);

// The same; if the checkpoint is damaged, reads the newest whole one beside it, and removes those
// that it passed over. Returns kInvalid if there is none; they stay then.
struct LoadedCheckpoint {
  Checkpoint checkpoint;
  std::string passed_over;  // why it is another one, a sentence; empty: it is not
};
Result<LoadedCheckpoint> load_newest_checkpoint(const std::string& path, const std::string& model,
                                                const std::vector<StatePiece>& pieces);

// Returns the folder's whole checkpoints by their manifests, the newest last, 32 at most. Their
// states are not read.
std::vector<Checkpoint> checkpoints_in(const std::string& folder);
// The same of those that are set aside.
std::vector<Checkpoint> set_aside_in(const std::string& folder);

// Makes the checkpoint of that step the newest: later ones are set aside, and one that was set
// aside comes back. Returns kNotFound with the steps that are there.
Result<void> go_back_to(const std::string& folder, int64_t step);

// Copies a checkpoint to another folder, whole or not at all. `aside`: a folder of the same file
// system in which the copy is made. Workers must not be able to write to it, where root copies.
// Returns kInvalid if the state does not have its manifest's checksum.
Result<Checkpoint> copy_checkpoint(const std::string& path, const std::string& folder,
                                   const std::string& aside, const std::atomic<bool>& stopped);

}  // namespace sluice::train
