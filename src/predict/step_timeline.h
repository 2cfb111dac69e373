// How long a training step takes by its timeline: the backward pass makes gradients bucket by
// bucket, and the all-reduce of a bucket starts while later ones are still computed (FaPES, §4.1).
//
//   T_step = max(end of compute, end of the last all-reduce) + optimizer
//
// Unlike StepModel (model/step_model.h), which learns the overlap as γ from steps with many
// workers, this predicts any number of workers from a profile of a few and the machine's all-reduce
// times.
#pragma once

#include <optional>
#include <span>
#include <vector>

#include "model/step_model.h"
#include "predict/collective.h"
#include "predict/step_fit.h"

namespace sluice::predict {

// Seconds over the samples of a worker.
struct BatchLine {
  double constant = 0, per_sample = 0;  // ≥ 0

  double at(double local_batch) const { return constant + per_sample * local_batch; }
  bool operator==(const BatchLine&) const = default;
};

// A worker's step as it was measured. Times begin with the step.
struct ProfiledStep {
  double local_batch = 1;
  std::vector<double>
      ready_seconds;           // of each bucket's gradients, in the order of the backward pass
  double compute_seconds = 0;  // forward and backward
  double optimizer_seconds = 0;
};

// A step as a function of the local batch, at speed 1.
struct StepProfile {
  struct Bucket {
    BatchLine ready;
    double bytes = 0;

    bool operator==(const Bucket&) const = default;
  };
  std::vector<Bucket> buckets;  // in the order of the backward pass
  BatchLine compute;
  double optimizer_seconds = 0;
  // What all-reduces cost computation that runs beside them: it proceeds at 1 ÷ (1 + contention) of
  // its speed. 0 on a GPU with copy engines of its own; on a CPU both need the same cores.
  double contention = 0;

  bool operator==(const StepProfile&) const = default;
};

enum class BatchScaling {
  kWithConstant,  // a line through the profiled batches; through the origin if there is one batch
  kProportional,  // T = m/m* · T*, as FaPES prints it: no part of a step is constant
};

// Returns the profile of steps with these bytes in their buckets, or nothing where there are no
// steps, a step has another number of buckets, or a batch is not positive.
std::optional<StepProfile> profile_of(std::span<const ProfiledStep> steps,
                                      std::span<const double> bytes,
                                      BatchScaling scaling = BatchScaling::kWithConstant);

// Seconds from the step's start.
struct StepTimeline {
  double compute_end = 0;        // of the backward pass
  double communication_end = 0;  // of the last all-reduce; 0 with one worker
  double step_end = 0;

  bool operator==(const StepTimeline&) const = default;
};

// Returns the timeline of a step with `local_batch` samples per worker. All-reduces run one at a
// time, in the order of the buckets; each starts when its gradients are ready and the one before it
// has ended. Pure. REQUIRES: workers.count ≥ 1, workers.speed > 0, local_batch > 0.
StepTimeline step_timeline(const StepProfile& profile, const CollectiveModel& collective,
                           const Workers& workers, double local_batch);

// Returns that step as a sample of weight 1 for a fit, with the part of it in which the worker
// waits for gradients. Pure. REQUIRES: as step_timeline().
StepSample predicted_step(const StepProfile& profile, const CollectiveModel& collective,
                          const Workers& workers, double local_batch);

}  // namespace sluice::predict
