#include "model/step_model.h"

#include <algorithm>
#include <cmath>

namespace sluice {
namespace {

constexpr int kPoints = 50;

double sync_seconds(const StepModel& m, const Workers& w) {
  if (w.count <= 1) return 0;
  const double more = std::max(w.count - 2, 0);
  return w.nodes > 1 ? m.alpha_n + m.beta_n * more : m.alpha_r + m.beta_r * more;
}

}  // namespace

double step_seconds(const StepModel& model, const Workers& workers, double local) {
  const double compute = (model.alpha_c + model.beta_c * local) / workers.speed;
  const double sync = sync_seconds(model, workers);
  const double longer = std::max(compute, sync);
  if (longer <= 0) return 0;
  // Of the ratio, so that no power overflows or vanishes.
  const double ratio = std::min(compute, sync) / longer;
  return longer * std::pow(1 + std::pow(ratio, model.gamma), 1 / model.gamma);
}

double efficiency(double noise, double batch, double base) {
  return noise <= 0 ? 1 : (noise + base) / (noise + batch);
}

BatchChoice best_batch(const StepModel& model, const Workers& workers, double noise,
                       const BatchRange& range) {
  const int64_t most_by_memory =
      range.most_local == 0 ? range.most : static_cast<int64_t>(range.most_local) * workers.count;
  const int least = std::max(range.least, workers.count);
  const int most = static_cast<int>(std::min<int64_t>(range.most, most_by_memory));
  BatchChoice best;
  if (least > most) return best;
  const double ratio = static_cast<double>(most) / least;
  for (int i = 0, before = 0; i < kPoints; ++i) {
    const int batch = static_cast<int>(std::lround(least * std::pow(ratio, i / (kPoints - 1.0))));
    if (batch == before) continue;
    before = batch;
    const double local = std::ceil(static_cast<double>(batch) / workers.count);
    const double seconds = step_seconds(model, workers, local);
    if (seconds <= 0) continue;
    const double throughput = batch / seconds;
    const double goodput = throughput * efficiency(noise, batch, range.least);
    if (goodput > best.goodput * (1 + 1e-12)) best = {batch, throughput, goodput};
  }
  return best;
}

}  // namespace sluice
