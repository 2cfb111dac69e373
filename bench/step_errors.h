// The errors of a fitted model of training steps, in sample and out of it.
#pragma once

#include <vector>

#include "model/step_model.h"
#include "predict/step_fit.h"

namespace sluice::bench {

using Steps = std::vector<predict::StepSample>;
// |predicted ÷ measured − 1| of each step, in per cent. Kept one by one, for totals over
// applications.
using Errors = std::vector<double>;

constexpr int kFewWorkers = 8;

struct Quality {
  Errors in_sample;    // by the fit to all steps
  Errors counts_out;   // each number of workers by the fit to the others
  Errors batches_out;  // each local batch by the fit to the others
  Errors larger_out;   // over kFewWorkers by the fit to those of fewer

  void add(const Quality& other);
};

Errors errors_of(const StepModel& model, const Steps& steps);

// REQUIRES: there is a step with a time.
Quality quality_of(const Steps& steps);

}  // namespace sluice::bench
