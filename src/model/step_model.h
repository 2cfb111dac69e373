// How long a step of data-parallel training takes, and how much one brings: Pollux's model (OSDI
// '21, §3). Predictors fit it (src/predict), policies and the trainer's controller ask it. Plain
// values and pure functions.
#pragma once

namespace sluice {

// Each worker computes gradients for `m` samples, then all exchange them:
//
//   T_grad = α_c + β_c·m            T_sync = 0 (K = 1), α + β·max(K − 2, 0) (K > 1)
//   T_step = (T_grad^γ + T_sync^γ)^(1/γ)
//
// with α, β = α_r, β_r for workers of one node and α_n, β_n for those of several. γ = 1: one after
// the other; 10: overlapped. Times are seconds.
struct StepModel {
  double alpha_c = 0, beta_c = 0;  // at speed 1; β_c per sample
  double alpha_r = 0, beta_r = 0;
  double alpha_n = 0, beta_n = 0;
  double gamma = 1;

  bool operator==(const StepModel&) const = default;
};

struct Workers {
  int count = 1;
  int nodes = 1;
  double speed = 1;  // of the slowest, which all others wait for; 1: that of the fit

  bool operator==(const Workers&) const = default;
};

// Returns the seconds of a step with `local` samples per worker.
// REQUIRES: workers.count ≥ 1, workers.speed > 0, local > 0.
double step_seconds(const StepModel& model, const Workers& workers, double local);

// Returns what a sample of a step of `batch` samples brings, against one of a step of `base`
// samples: (φ + M0) / (φ + M), φ being the gradient noise scale in samples (OSDI '21, eq. 5).
// φ = 0: unknown, and all batches count alike: 1.
double efficiency(double noise, double batch, double base = 1);

// What bounds the global batch of a job.
struct BatchRange {
  int least = 1, most = 1;  // samples of a step, over all workers
  int most_local = 0;       // samples of a worker, which its memory allows; 0: no bound

  bool operator==(const BatchRange&) const = default;
};

struct BatchChoice {
  int batch = 0;          // over all workers; 0: none is allowed with so many workers
  double throughput = 0;  // samples per second
  double goodput = 0;     // throughput × efficiency against range.least

  bool operator==(const BatchChoice&) const = default;
};

// Returns the batch with the best goodput of 50 geometric points in the range; of equal ones the
// smallest. Every worker has at least one sample.
BatchChoice best_batch(const StepModel& model, const Workers& workers, double noise,
                       const BatchRange& range);

}  // namespace sluice
