// Models whose training steps Pollux's authors measured on T4 (OSDI '21), and random jobs of them.
// Plain values.
#pragma once

#include <time.h>

#include <cmath>
#include <string>

#include "base/random.h"
#include "model/function.h"
#include "model/snapshot.h"

namespace sluice::bench {

struct TrainedModel {
  StepModel step;
  BatchRange batch;
  double noise;  // samples
};
inline const TrainedModel kTrainedModels[] = {
    {{0.0177, 0.000704, 0.0297, 0.000611, 0.123, 0.00269, 2.09}, {128, 4096, 1024}, 2000},
    {{0.064, 0.00449, 0.108, 0.00189, 0.299, 0.00656, 2.47}, {200, 12'800, 200}, 9000},
    {{0.173, 0.0584, 0.279, 0.00481, 1.37, 0.00985, 1.86}, {12, 384, 12}, 700},
    {{0.191, 0.025, 0.127, 0.0159, 0.728, 0.0114, 1.08}, {8, 512, 16}, 500},
};

// A job of at most 64 devices that takes from a quarter of an hour to some hours on two.
inline FunctionView random_job(const std::string& name, Time now, Random& random) {
  const TrainedModel& model = kTrainedModels[random.below(std::size(kTrainedModels))];
  FunctionView view;
  view.spec.name = {"default", name};
  view.spec.device = "any";
  view.spec.kind = TrainingSpec{.epochs = 10, .max_workers = 64, .batch = model.batch};
  const double alone = best_batch(model.step, {.count = 2}, model.noise, model.batch).throughput;
  const double seconds_on_two = 1000 * std::exp(2 * random.uniform() + random.normal() / 2);
  view.job = JobView{.submitted = now,
                     .samples = static_cast<int64_t>(alone * seconds_on_two),
                     .step = model.step,
                     .noise = model.noise};
  return view;
}

// Of this thread.
inline double cpu_ms() {
  timespec t{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
  return static_cast<double>(t.tv_sec) * 1e3 + static_cast<double>(t.tv_nsec) / 1e6;
}

}  // namespace sluice::bench
