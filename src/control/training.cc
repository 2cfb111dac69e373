#include "control/training.h"

#include <algorithm>

namespace sluice::control {

std::optional<JobView> job_view(const FunctionSpec& spec,
                                const std::optional<train::JobStatus>& status, Time submitted,
                                bool has_workers) {
  if (spec.is_inference()) return std::nullopt;
  JobView view{.submitted = submitted};
  if (status) {
    view.phase = status->phase;
    view.trouble = status->trouble;
    view.samples = status->samples * status->epochs;
    const train::JobPosition at = train::position_of(*status);
    const bool finished_before = view.phase == JobPhase::kFinished && !status->progress;
    view.done = finished_before ? view.samples
                                : std::min(view.samples, at.epoch * status->samples + at.sample);
    view.reported = status->reported;
    view.noise = status->noise;
    view.step = status->step;
    view.measures_first = status->measures_first;
    view.batch = status->batch;
    view.learning_rate = status->learning_rate;
    if (!status->reforms.empty())
      view.reform = status->reforms.back().stopping + status->reforms.back().forming;
  }
  if (status && status->files_pending && train::goes_on(view.phase))
    view.phase = has_workers ? JobPhase::kRunning : JobPhase::kPaused;
  if (spec.training().paused && train::goes_on(view.phase)) view.phase = JobPhase::kPaused;
  return view;
}

}  // namespace sluice::control
