// What steps of a model took, by the number of workers, whether on several nodes, and the batch,
// and the model of a step that follows; and the noise scale along a job. Of one job, or shared by
// all jobs of one model: what one has measured serves those that come later. One thread, or under a
// lock.
//
// A group's profile stands in for steps that were not measured yet: by its timeline and the
// all-reduces of all jobs, the steps of 1, 2, 4 and 8 workers are predicted. Their weight in the
// fit is a tenth of a measured step's. A predicted step gives way to a measured one of as many
// workers, and all give way once steps of three numbers of workers were measured.
#pragma once

#include <array>
#include <map>
#include <memory>
#include <optional>
#include <tuple>
#include <vector>

#include "model/step_model.h"
#include "predict/step_fit.h"
#include "train/all_reduce_history.h"
#include "train/group_profile.h"

namespace sluice::train {

class StepHistory {
 public:
  // `all_reduces`: of all jobs on the same machines; null: of this model's alone.
  explicit StepHistory(std::shared_ptr<AllReduceHistory> all_reduces = nullptr);

  // Takes in a profile, and its all-reduces. One with other buckets than those before is of another
  // module: these count no more. REQUIRES: as a Profiled that was read; workers.count ≥ 1.
  void add_profile(GroupProfile profile);
  // Returns the newest one; nullptr: there is none.
  const GroupProfile* profile() const { return profiles_.empty() ? nullptr : &profiles_.back(); }
  // Since when there is one. REQUIRES: profile().
  Time profiled_since() const { return profiled_since_; }
  // Whether model() rests on predicted steps, too.
  bool uses_profile() const;
  // Returns these steps: of numbers of workers that were not measured, on as many nodes as the
  // newest profile's group (one, or several), with the samples of a worker that were profiled.
  std::vector<predict::StepSample> predicted() const;

  // `wait`: the part of the step in which a worker waited for the others' gradients. All seconds.
  void add(const Workers& workers, int batch, double step, double wait);

  // φ in samples, at that part of a job, from 0 to 1.
  void add_noise(double part, double noise);

  // Returns nullopt before the first step or profile. The fit is made anew once a profile came, a
  // twentieth more steps were added, or twenty.
  const std::optional<StepModel>& model() const;
  // Returns φ as it was near that part of a job; 0: unknown.
  double noise(double part) const;

 private:
  // Averages that forget, as what the workers' devices leave them changes.
  struct Mean {
    double step = 0, wait = 0;
    int count = 0;
  };

  // By workers, whether they are on several nodes, and the batch.
  std::map<std::tuple<int, bool, int>, Mean> means_;
  int added_ = 0;
  std::shared_ptr<AllReduceHistory> all_reduces_;  // not null
  std::vector<GroupProfile> profiles_;             // one of a configuration; the newest last
  Time profiled_since_{};
  mutable std::optional<StepModel> model_;
  mutable int fitted_ = 0;          // of the added ones
  mutable bool stale_ = false;      // a profile came since the fit
  std::array<double, 20> noise_{};  // by twentieth of a job; 0: unknown
};

}  // namespace sluice::train
