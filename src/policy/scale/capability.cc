#include "policy/scale/capability.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "base/check.h"

namespace sluice::policy {

Capability::Capability(const Demand& demand, const Sizing& sizing, const Predictor& predictor,
                       const Device& device)
    : predictor_(predictor),
      sizing_(sizing),
      model_(model_on(demand.function(), demand.revision, device)) {
  Candidates candidates = predictor.candidates(model_);
  batches_ = std::move(candidates.batches);
  widths_ = std::move(candidates.sms);
  const FunctionSpec& spec = *demand.spec;
  const InferenceSpec& inference = spec.inference();
  const int most = most_at_once(spec, type_of(device));
  std::erase_if(batches_, [&](int b) { return b > most; });
  if (batches_.empty()) batches_ = {1};
  if (spec.mps == "off") widths_ = {kWhole};
  fastest_ = latency({batches_.front(), kWhole, kWhole});
  const Bytes stated = spec.memory_on(device.kind);
  memory_ = stated > 0 ? stated : predictor.memory(model_).value_or(0);
  if (inference.slo.latency <= Nanos(0)) return;  // no objective: everything is in time
  slo_ = inference.slo.latency;
  bound_ = from_seconds(seconds(inference.slo.latency) * sizing.slo_fraction);
  if (fastest_ && *fastest_ > bound_) bound_ = inference.slo.latency;
}

std::optional<Nanos> Capability::latency(const Configuration& c) const {
  const std::optional<Prediction> p = predictor_.predict(model_, c);
  return p ? std::optional(cautious(*p)) : std::nullopt;
}

double Capability::throughput(const Configuration& c) const {
  return predictor_.throughput(model_, c);
}

bool Capability::in_time(const Configuration& c) const {
  const std::optional<Nanos> t = latency({c.batch, c.sm, sizing_.borrow ? kWhole : c.quota});
  return t && *t <= bound_;
}

bool Capability::keeps_slo_idle(const Configuration& c) const {
  if (!sizing_.borrow) return of(c) > 0;
  const std::optional<Nanos> t = latency({batches_.front(), c.sm, c.quota});
  return t && *t <= slo_;
}

double Capability::of(const Configuration& c) const {
  constexpr size_t kRemembered = 16;
  for (const auto& [asked, answer] : answered_)
    if (asked == c) return answer;
  const double answer = compute(c);
  if (answered_.size() < kRemembered) answered_.emplace_back(c, answer);
  return answer;
}

double Capability::compute(const Configuration& c) const {
  if (in_time(c)) return throughput(c);
  double most = 0;
  for (const int batch : batches_) {
    const Configuration smaller{batch, c.sm, c.quota};
    if (batch < c.batch && in_time(smaller)) most = std::max(most, throughput(smaller));
  }
  return most;
}

double Capability::late_alone(double rate) const {
  const std::optional<int> batch = best_batch(kWhole, kWhole);
  if (!batch || slo_ == Nanos::max() || *fastest_ >= slo_) return 0;
  const double busy = rate / of({*batch, kWhole, kWhole});
  if (busy >= 1) return 1;
  const double patience = seconds(slo_ - *fastest_) / seconds(*fastest_);
  return busy * std::exp(-2 * (1 - busy) * patience);
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
  for (Share q = sizing_.min_quota; q <= kWhole; q = quota_above(q, sizing_)) {
    const Configuration c{batch, sm, q};
    const bool enough = throughput(c) > 0 && throughput(c) >= sizing_.min_rate;
    if (enough && (!sizing_.idle_meets_slo || keeps_slo_idle(c))) return q;
    if (q == kWhole) break;
  }
  return std::nullopt;
}

Capabilities::Capabilities(const Demand& demand, const Sizing& sizing, const Predictor& predictor,
                           std::span<const Device* const> types) {
  static const Device kNoDevice;
  all_.reserve(types.size());
  for (const Device* type : types)
    all_.push_back({type, Capability(demand, sizing, predictor, *type)});
  if (all_.empty()) all_.push_back({&kNoDevice, Capability(demand, sizing, predictor, kNoDevice)});
  const auto fastest = [&](size_t i) {
    return all_[i].capability.fastest().value_or(Nanos::max());
  };
  for (size_t i = 1; i < all_.size(); ++i)
    if (fastest(i) < fastest(best_)) best_ = i;
}

const Capability& Capabilities::on(const Device& device) const {
  const auto found =
      std::ranges::find_if(all_, [&](const OnType& t) { return alike(*t.example, device); });
  SLUICE_CHECK(found != all_.end(), device.id);
  return found->capability;
}

Bytes Capabilities::most_memory() const {
  Bytes most = 0;
  for (const OnType& t : all_) most = std::max(most, t.capability.memory());
  return most;
}

std::vector<Share> widths_on(const Device& type, const std::vector<Share>& widths) {
  std::vector<Share> found;
  for (const Share width : widths) {
    const Share sm = std::min(round_up(width, type.sm_quantum), kWhole);
    if (found.empty() || found.back() != sm) found.push_back(sm);  // the quantum makes some equal
  }
  return found;
}

Share quota_above(Share quota, const Sizing& sizing) {
  const int step = sizing.quota_step.permille;
  return std::min(Share{(quota.permille / step + 1) * step}, kWhole);
}

Share quota_below(Share quota, const Sizing& sizing) {
  const int step = sizing.quota_step.permille;
  return std::max(Share{(quota.permille - 1) / step * step}, sizing.min_quota);
}

}  // namespace sluice::policy
