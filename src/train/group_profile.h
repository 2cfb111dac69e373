// How a step of a group passes: when each bucket of gradients is complete, what its all-reduce
// takes, and when computation ends (FaPES, §4.1). Rank 0 measures it in the group's first steps,
// which are steps of the training like any other.
//
// Plain values, and a class of one owner.
#pragma once

#include <optional>
#include <vector>

#include "base/clock.h"
#include "model/step_model.h"
#include "predict/step_timeline.h"
#include "train/messages.h"

namespace sluice::train {

struct GroupProfile {
  Workers workers;
  int batch = 0;              // of a step, over all workers
  int steps = 0;              // that were measured
  std::vector<double> bytes;  // by bucket, in the order of the backward pass
  std::vector<double> sum_seconds;
  predict::ProfiledStep step;
  Time at{};  // when it was reported

  double local_batch() const { return static_cast<double>(batch) / workers.count; }
};

// Returns the sum of all buckets' all-reduces, in seconds.
double all_reduce_time(const GroupProfile& profile);
// Returns the part of that time in which the worker computed, from 0 to 1; 0 where there is none.
double overlap_of(const GroupProfile& profile);

// What rank 0 measured of one step. Seconds; `ready` from the step's begin on.
struct MeasuredStep {
  std::vector<double> ready, sums;
  double compute = 0, optimizer = 0;
};

// The first steps of a group, of which its profile is made: those of about a second, so that a
// device whose time is shared out in windows shows its share. The first two do not count: they wait
// for ranks that still connect, and a module compiles in them.
class FirstSteps {
 public:
  // Whether further steps count.
  bool open() const { return !closed_; }
  // Takes in a step of `batch` samples, which ended `since_begin` after the first one had begun.
  // Returns the profile once there are enough steps, or the time for them is over: with the means
  // of computation, and the medians of all-reduces, as some also wait for another rank. A step of
  // another batch than the first one's does not count.
  // REQUIRES: open(); `bytes`, `ready` and `sums` have one number for each bucket.
  std::optional<Profiled> add(const MeasuredStep& step, const std::vector<double>& bytes, int batch,
                              Nanos since_begin);

 private:
  std::vector<MeasuredStep> steps_;
  int seen_ = 0;
  int batch_ = 0;
  bool closed_ = false;
};

}  // namespace sluice::train
