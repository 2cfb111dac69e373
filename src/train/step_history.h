// What a job's steps took, by the number of workers and the batch, and the model of a step that
// follows. A value of one owner.
#pragma once

#include <map>
#include <optional>
#include <utility>

#include "model/step_model.h"

namespace sluice::train {

class StepHistory {
 public:
  // `wait`: the part of the step in which a worker waited for the others' gradients. All seconds.
  void add(int workers, int batch, double step, double wait);

  // Returns nullopt before the first step. The fit is made anew if steps were added since.
  const std::optional<StepModel>& model() const;

 private:
  // Averages that forget, as what the workers' devices leave them changes.
  struct Mean {
    double step = 0, wait = 0;
    int count = 0;
  };

  std::map<std::pair<int, int>, Mean> means_;  // by workers and batch
  mutable std::optional<StepModel> model_;
  mutable bool stale_ = false;
};

}  // namespace sluice::train
