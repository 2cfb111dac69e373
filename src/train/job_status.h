// What a job's controller reports, for listings and decisions. Plain values.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/clock.h"
#include "model/training.h"
#include "train/group_profile.h"
#include "train/messages.h"

namespace sluice::train {

// What a change of members cost.
struct Reform {
  int64_t generation = 0;     // that was formed
  int before = 0, after = 0;  // workers
  std::string why;            // "start", "join", "leave", "crash", "restart"
  Nanos stopping{0};          // from the order or the loss until all had stopped
  Nanos forming{0};           // from then until the first step was taken
};

// A worker that its controller gave up, and that has to be ended: it does not do so by itself.
struct Straggler {
  std::string worker;
  std::string why;  // a sentence without its subject: "has not answered for 30 s"
};

// A job at one moment, for listings and decisions.
struct JobStatus {
  JobPhase phase = JobPhase::kQueued;
  std::string trouble;
  int64_t samples = 0;  // of an epoch; 0: no worker has read the data set yet
  int64_t epochs = 0;
  int workers = 0;
  int64_t generation = 0;
  int batch = 0;
  double learning_rate = 0;  // at that batch
  int base_batch = 0;        // the least
  std::string batch_reason;  // why the batch is what it is
  double noise = 0;          // φ; 0: unknown
  std::optional<StepModel> step;
  std::optional<GroupProfile> profile;  // how a step of its model passes
  Time profiled{};                      // since when the job has one
  bool planned_by_profile = false;      // the step model rests on it, too
  std::string not_profiled;             // why its first group was not; empty: it was, or will be
  bool measures_first = false;          // its first group is to give the profile
  std::optional<Progress> progress;
  Time reported{};  // when that came
  std::optional<Saved> checkpoint;
  std::string model;
  // Its folder is being prepared, or its results are being copied: no worker may start, and it is
  // not finished yet.
  bool files_pending = false;
  std::vector<std::string> members;   // of the generation, by rank
  std::vector<Reform> reforms;        // the newest last
  std::vector<Straggler> stragglers;  // the newest last
  bool stalled = false;   // it has workers, and takes no step for longer than one may need
  std::string waits_for;  // the workers that do not answer, and since when; empty: none
};

// Whether workers may still make progress.
constexpr bool goes_on(JobPhase phase) {
  return phase == JobPhase::kQueued || phase == JobPhase::kRunning;
}
// How far its newest known parameters have come.
inline JobPosition position_of(const JobStatus& s) {
  return s.progress ? s.progress->at : s.checkpoint ? s.checkpoint->at : JobPosition();
}

}  // namespace sluice::train
