// StepModel (model/step_model.h) from the steps that a job took, as Pollux fits it (OSDI '21,
// §4.1):
//
//   minimise  RMSLE(T_grad) + RMSLE(T_step) + 10⁻³·(γ − 1)² + 10⁻²·((β_n/α_n)² + (β_r/α_r)²)
//
// with α, β ≥ 10⁻⁸ and 1 ≤ γ ≤ 10. RMSLE is the root of the mean squared difference of logarithms,
// so that a step of 10 ms counts like one of 10 s.
#pragma once

#include <optional>
#include <span>

#include "model/step_model.h"

namespace sluice::predict {

// One step, or the mean of several that were alike.
struct StepSample {
  int workers = 1;
  int nodes = 1;
  double local_batch = 1;  // samples per worker
  double step_seconds = 0;
  double sync_seconds = 0;  // the part of it in which gradients were exchanged; 0: not measured
  double speed = 1;         // of the slowest worker
  double weight = 1;        // beside other samples; > 0. A measured step counts 1

  bool operator==(const StepSample&) const = default;
};

// Returns nothing without samples; those without a time, a worker or a batch do not count.
//
// What no sample shows is assumed to be cheap, so that a job tries it:
// - One batch alone: α_c is half of the mean T_grad.
// - No sample of one node with several workers: T_sync within a node is nothing.
// - No sample of several nodes: they exchange a tenth slower than one node does.
// - None with more than two workers: a further worker adds nothing to T_sync.
//
// Samples of one weight count alike. A controller therefore hands over the mean of each
// configuration, or the one that ran longest outweighs the others.
//
// Pure. The same samples give the same model, in any order up to rounding. Samples alike in all but
// their times are merged first, so a long history of few configurations costs little.
std::optional<StepModel> fit_step_model(std::span<const StepSample> samples);

}  // namespace sluice::predict
