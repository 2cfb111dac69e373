// An elastic training job as the control loop and its policies see it. Plain values.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "base/clock.h"
#include "model/step_model.h"

namespace sluice {

enum class JobPhase {
  kQueued,    // no worker has begun
  kRunning,   // it has workers, or had some and waits for others
  kPaused,    // by its user, or because it cannot go on (JobView::trouble)
  kFinished,  // every epoch is trained
  kFailed,    // it never will be; JobView::trouble says why
};

struct JobView {
  JobPhase phase = JobPhase::kQueued;
  std::string trouble;
  Time submitted{};
  // Samples of all epochs, and how many of them the newest parameters have seen. 0 of 0: no worker
  // has read the data set yet.
  int64_t samples = 0, done = 0;
  Time reported{};  // when a worker reported `done`; Time{}: none has since the loop began
  // Absent until steps were measured or profiled; policies then assume that workers scale linearly.
  std::optional<StepModel> step;
  // Neither steps nor a profile of its model are known yet, and its first group is to give them: a
  // plan holds it at two workers until then.
  bool measures_first = false;
  double noise = 0;  // gradient noise scale, samples; 0: unknown
  int batch = 0;     // of a step, over all workers; 0: the trainer's first
  double learning_rate = 0;
  Nanos reform{0};  // for how long its last change of workers stopped it; 0: there was none

  bool operator==(const JobView&) const = default;
};

inline bool wants_workers(const JobView& job) {
  return job.phase == JobPhase::kQueued || job.phase == JobPhase::kRunning;
}

}  // namespace sluice
