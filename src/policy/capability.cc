#include "policy/capability.h"

#include <algorithm>

namespace sluice::policy {

Capability::Capability(const Demand& demand, const HasGpuSettings& config,
                       const Predictor& predictor)
    : predictor_(predictor),
      config_(config),
      function_(demand.function()),
      revision_(demand.revision),
      batches_(predictor.batches(function_, revision_)),
      widths_(predictor.sms(function_, revision_)) {
  const FunctionSpec& spec = *demand.spec;
  std::erase_if(batches_, [&](int b) { return b > std::max(1, spec.batching.max_size); });
  if (batches_.empty()) batches_ = {1};
  fastest_ = latency({batches_.front(), kWhole, kWhole});
  memory_ = spec.memory > 0 ? spec.memory : predictor.memory(function_, revision_).value_or(0);
  if (spec.slo.latency <= Nanos(0)) return;  // no objective: everything is in time
  slo_ = spec.slo.latency;
  bound_ = from_seconds(seconds(spec.slo.latency) * config.slo_fraction);
  if (fastest_ && *fastest_ > bound_) bound_ = spec.slo.latency;
}

std::optional<Nanos> Capability::latency(const Configuration& c) const {
  return predictor_.latency(function_, revision_, c);
}

double Capability::throughput(const Configuration& c) const {
  return predictor_.throughput(function_, revision_, c);
}

bool Capability::in_time(const Configuration& c) const {
  const std::optional<Nanos> t = latency({c.batch, c.sm, config_.borrow ? kWhole : c.quota});
  return t && *t <= bound_;
}

bool Capability::keeps_slo_idle(const Configuration& c) const {
  if (!config_.borrow) return of(c) > 0;
  const std::optional<Nanos> t = latency({batches_.front(), c.sm, c.quota});
  return t && *t <= slo_;
}

double Capability::of(const Configuration& c) const {
  if (in_time(c)) return throughput(c);
  double most = 0;
  for (const int batch : batches_) {
    const Configuration smaller{batch, c.sm, c.quota};
    if (batch < c.batch && in_time(smaller)) most = std::max(most, throughput(smaller));
  }
  return most;
}

std::optional<int> Capability::best_batch(Share sm, Share quota) const {
  constexpr double kAsGood = 0.98;
  double most = 0;
  for (const int batch : batches_) most = std::max(most, of({batch, sm, quota}));
  for (const int batch : batches_) {
    if (most > 0 && of({batch, sm, quota}) >= kAsGood * most) return batch;
  }
  return std::nullopt;
}

std::optional<Share> Capability::idle_quota(Share sm, int batch) const {
  for (Share q = config_.min_quota; q <= kWhole; q = quota_above(q, config_)) {
    const Configuration c{batch, sm, q};
    const bool enough = throughput(c) > 0 && throughput(c) >= config_.min_rate;
    if (enough && (!config_.idle_meets_slo || keeps_slo_idle(c))) return q;
    if (q == kWhole) break;
  }
  return std::nullopt;
}

Share quota_above(Share quota, const HasGpuSettings& config) {
  const int step = config.quota_step.permille;
  return std::min(Share{(quota.permille / step + 1) * step}, kWhole);
}

Share quota_below(Share quota, const HasGpuSettings& config) {
  const int step = config.quota_step.permille;
  return std::max(Share{(quota.permille - 1) / step * step}, config.min_quota);
}

}  // namespace sluice::policy
