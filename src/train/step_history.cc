#include "train/step_history.h"

#include <algorithm>
#include <cmath>
#include <set>
#include <utility>

namespace sluice::train {
namespace {

constexpr double kLeastWeight = 0.05;  // of a new step: the averages look back on 20
constexpr size_t kMostProfiles = 8;
constexpr int kPredicted[] = {1, 2, 4, 8};  // workers
constexpr double kPredictedWeight = 0.1;
constexpr size_t kEnoughCounts = 3;  // of workers with measured steps, that nothing is predicted

}  // namespace

StepHistory::StepHistory(std::shared_ptr<AllReduceHistory> all_reduces)
    : all_reduces_(all_reduces ? std::move(all_reduces) : std::make_shared<AllReduceHistory>()) {}

void StepHistory::add_profile(GroupProfile p) {
  const auto key = [](const GroupProfile& g) {
    return std::tuple(g.workers.count, g.workers.nodes > 1, g.batch);
  };
  if (profiles_.empty() || profiles_.back().bytes != p.bytes) profiled_since_ = p.at;
  std::erase_if(profiles_, [&](const GroupProfile& old) {
    return key(old) == key(p) || old.bytes != p.bytes;
  });
  if (profiles_.size() == kMostProfiles) profiles_.erase(profiles_.begin());
  for (size_t i = 0; i < p.bytes.size(); ++i)
    all_reduces_->add(p.workers, p.bytes[i], p.sum_seconds[i]);
  profiles_.push_back(std::move(p));
  stale_ = true;
}

bool StepHistory::uses_profile() const {
  std::set<int> counts;
  for (const auto& [configuration, mean] : means_) counts.insert(std::get<0>(configuration));
  return !profiles_.empty() && counts.size() < kEnoughCounts;
}

std::vector<predict::StepSample> StepHistory::predicted() const {
  if (!uses_profile()) return {};
  const GroupProfile& newest = profiles_.back();
  const bool several = newest.workers.nodes > 1;
  std::vector<predict::ProfiledStep> steps;
  std::set<double> batches;
  for (const GroupProfile& p : profiles_) {
    steps.push_back(p.step);
    batches.insert(p.local_batch());
  }
  const auto profile = predict::profile_of(steps, newest.bytes);
  const auto collective = all_reduces_->model(several);
  std::vector<predict::StepSample> samples;
  if (!profile) return samples;
  for (const int count : kPredicted) {
    const Workers workers{.count = count, .nodes = several && count > 1 ? 2 : 1};
    if (count > 1 && !collective) continue;
    if (std::ranges::any_of(means_, [&](const auto& mean) {
          return std::get<0>(mean.first) == count && std::get<1>(mean.first) == (workers.nodes > 1);
        }))
      continue;
    for (const double batch : batches) {
      samples.push_back(predict::predicted_step(
          *profile, collective.value_or(predict::CollectiveModel()), workers, batch));
      samples.back().weight = kPredictedWeight;
    }
  }
  return samples;
}

void StepHistory::add(const Workers& workers, int batch, double step, double wait) {
  if (workers.count < 1 || batch < 1 || !(step > 0) || !std::isfinite(step)) return;
  Mean& mean = means_[{workers.count, workers.nodes > 1, batch}];
  const double weight = std::max(1.0 / ++mean.count, kLeastWeight);
  mean.step += weight * (step - mean.step);
  mean.wait += weight * (std::clamp(wait, 0.0, step) - mean.wait);
  ++added_;
}

const std::optional<StepModel>& StepHistory::model() const {
  if (!stale_ && (added_ == fitted_ || added_ - fitted_ < std::min(fitted_ / 20, 20)))
    return model_;
  std::vector<predict::StepSample> samples = predicted();
  for (const auto& [configuration, mean] : means_) {
    const auto [workers, several, batch] = configuration;
    samples.push_back({.workers = workers,
                       .nodes = several ? 2 : 1,
                       .local_batch = static_cast<double>(batch) / workers,
                       .step_seconds = mean.step,
                       .sync_seconds = mean.wait});
  }
  model_ = predict::fit_step_model(samples);
  fitted_ = added_;
  stale_ = false;
  return model_;
}

namespace {

size_t slot_of(double part, size_t parts) {
  const double at = std::clamp(part, 0.0, 1.0) * static_cast<double>(parts);
  return std::min(static_cast<size_t>(at), parts - 1);
}

}  // namespace

void StepHistory::add_noise(double part, double noise) {
  if (!(noise > 0) || !std::isfinite(noise)) return;
  double& mean = noise_[slot_of(part, noise_.size())];
  mean = mean > 0 ? mean + 0.2 * (noise - mean) : noise;
}

double StepHistory::noise(double part) const {
  const size_t wanted = slot_of(part, noise_.size());
  for (size_t off = 0; off < noise_.size(); ++off) {
    if (wanted >= off && noise_[wanted - off] > 0) return noise_[wanted - off];
    if (wanted + off < noise_.size() && noise_[wanted + off] > 0) return noise_[wanted + off];
  }
  return 0;
}

}  // namespace sluice::train
