#include "predict/work_model.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <limits>
#include <map>
#include <numeric>
#include <utility>

namespace sluice::predict {
namespace {

constexpr size_t kTypes = std::size(kOperatorTypes);
constexpr double kNever = -std::numeric_limits<double>::infinity();

double log_sum(double a, double b) {
  const double most = std::max(a, b);
  return most == kNever ? kNever : most + std::log1p(std::exp(std::min(a, b) - most));
}

double sharp_max(double a, double b, double sharpness) {
  return log_sum(sharpness * a, sharpness * b) / sharpness;
}

double numbers_of(const std::vector<int64_t>& shape) {
  double n = 1;
  for (const int64_t d : shape) n *= static_cast<double>(std::max<int64_t>(d, 1));
  return n;
}

size_t type_index(const std::string& type) {
  const auto found = std::find(std::begin(kOperatorTypes), std::end(kOperatorTypes), type);
  return static_cast<size_t>(std::min(found, std::end(kOperatorTypes) - 1) -
                             std::begin(kOperatorTypes));
}

double log_of(Share s) {
  return std::log(std::max(s.permille, 1) / 1000.0);
}

}  // namespace

OperatorFeatures::OperatorFeatures(const Operator& o)
    : has_macs_(o.macs > 0),
      moved_(numbers_of(o.in) + numbers_of(o.out)),
      parameters_(static_cast<double>(o.parameters)) {
  const double gmacs = static_cast<double>(o.macs) / 1e9;
  if (o.groups > 1 || o.type == "dwconv2d")
    growing_[2] = gmacs;
  else
    growing_[o.type == "conv2d" && o.kernel > 1 ? 1 : 0] = gmacs;
  growing_[4] = moved_ / 1e8;
  if (o.type == "dense") constant_work_[3] = parameters_ / 1e9;
  constant_work_[5] = 1e-3;
  constant_[type_index(o.type)] = 1;
  constant_[kTypes] = std::log1p(static_cast<double>(o.macs));
  constant_[kTypes + 1] = std::log1p(parameters_);
  constant_[kTypes + 3] = std::log(numbers_of(o.out));
  constant_[kTypes + 4] = o.kernel;
  constant_[kTypes + 5] = std::log1p(o.groups);
}

FeatureVector OperatorFeatures::at(double s, double b) const {
  FeatureVector x = constant_;
  if (has_macs_) x[kTypes] += b;
  x[kTypes + 2] = std::log(moved_ * std::exp(b) + parameters_);
  x[kTypes + 3] += b;
  x[kTypes + 6] = s;
  x[kTypes + 7] = b;
  return x;
}

Work OperatorFeatures::work(double batch) const {
  Work all = constant_work_;
  for (size_t i = 0; i < kWorkKinds; ++i) all[i] += batch * growing_[i];
  return all;
}

std::vector<CountedOperator> counted(const OperatorGraph& graph) {
  std::map<FeatureVector, CountedOperator> by_features;
  for (const Operator& o : graph.operators) {
    const OperatorFeatures features(o);
    const auto [found, added] = by_features.try_emplace(
        features.at(0, 0), CountedOperator{type_index(o.type), features, 0});
    ++found->second.count;
  }
  std::vector<CountedOperator> all;
  for (const auto& [features, one] : by_features) all.push_back(one);
  return all;
}

WorkEstimate::WorkEstimate(const WorkWeights& weights, const OperatorGraph& graph,
                           const ShortProfile* profile)
    : weights_(weights), operators_(counted(graph)) {
  double issue = kNever;
  for (const CountedOperator& o : operators_)
    issue = log_sum(issue, std::log(o.count) + weights.issue[o.type]);
  host_ = issue;
  if (profile != nullptr) calibrate(*profile);
}

double WorkEstimate::log_device(double s, double b) const {
  double ms = 0;
  for (const CountedOperator& o : operators_) {
    if (weights_.rates.empty()) {
      ms += o.count * std::exp(weights_.network.value(o.features.at(s, b)));
      continue;
    }
    const Work work = o.features.work(std::exp(b));
    ms += o.count * std::exp(-s) *
          std::inner_product(work.begin(), work.end(), weights_.rates.begin(), 0.0);
  }
  return std::log(ms) + correction_[0] + correction_[1] * (s + 1);
}

// Linear in log q between the quotas of the weights, and beyond the least.
double WorkEstimate::log_throttle(double q) const {
  const std::vector<TimeAt>& t = weights_.throttle;
  if (t.size() < 2) return -q;
  size_t i = 1;
  while (i + 1 < t.size() && log_of(t[i].share) < q) ++i;
  const double low = log_of(t[i - 1].share), high = log_of(t[i].share);
  return t[i - 1].ms + (t[i].ms - t[i - 1].ms) * (q - low) / (high - low);
}

// Between the profile's quotas a model's own times follow the throttle's shape.
double WorkEstimate::host_ms(Share quota) const {
  const double typical = host_ + log_throttle(log_of(quota));
  if (own_quotas_.empty()) return std::exp(typical);
  const auto above = std::find_if(own_quotas_.begin(), own_quotas_.end(),
                                  [&](const TimeAt& t) { return t.share >= quota; });
  double own = own_quotas_.back().ms;
  if (above == own_quotas_.begin()) {
    const double least = log_throttle(log_of(above->share));
    own = above->ms + weights_.tail * (log_throttle(log_of(quota)) - least);
  } else if (above != own_quotas_.end()) {
    const TimeAt& below = *std::prev(above);
    const double low = log_throttle(log_of(below.share)), high = log_throttle(log_of(above->share));
    const double part =
        high == low ? 1 : std::clamp((log_throttle(log_of(quota)) - low) / (high - low), 0.0, 1.0);
    own = below.ms + part * (above->ms - below.ms);
  }
  // A device-bound model's times hide what its host needs: that is less.
  return std::exp(device_bound_ ? std::min(own, typical) : own);
}

double WorkEstimate::device_ms(int batch, Share sm) const {
  return std::exp(log_device(log_of(sm), std::log(batch)));
}

double WorkEstimate::slower(double device, double host) const {
  return std::exp(sharp_max(std::log(device), std::log(host), weights_.sharpness));
}

// The part of the device that a batch has while it runs.
Share WorkEstimate::device_share(const Configuration& c) const {
  if (weights_.rates.empty()) return c.sm;
  return Share{std::max(c.sm.permille * c.quota.permille / kWhole.permille, 1)};
}

double WorkEstimate::ms(const Configuration& c) const {
  return slower(device_ms(c.batch, device_share(c)), host_ms(c.quota));
}

std::vector<double> WorkEstimate::ms(std::span<const Configuration> all) const {
  std::map<std::pair<int, Share>, double> device;
  std::map<Share, double> host;
  std::vector<double> out;
  for (const Configuration& c : all) {
    const Share share = device_share(c);
    const auto [d, new_device] = device.try_emplace({c.batch, share}, 0);
    if (new_device) d->second = device_ms(c.batch, share);
    const auto [h, new_host] = host.try_emplace(c.quota, 0);
    if (new_host) h->second = host_ms(c.quota);
    out.push_back(slower(d->second, h->second));
  }
  return out;
}

// Gauss's and Newton's method on Σ (log measured − log max(device·e^θ…, floor))² + λ·θ².
void WorkEstimate::calibrate(const ShortProfile& profile) {
  constexpr int kRounds = 4;
  constexpr double kMostOff = 1.5;  // of a logarithm: a wild profile corrects so much at most
  constexpr double kBoundBy = 0.2;  // more than the host's time by so much of a logarithm
  const double k = weights_.sharpness;
  for (const TimeAt& t : profile.quotas) own_quotas_.push_back({t.share, std::log(t.ms)});
  double alone = -kNever;  // the least: host-bound, or nearly
  for (const TimeAt& t : profile.alone) alone = std::min(alone, std::log(t.ms));
  if (!profile.alone.empty()) host_ = std::log(profile.alone.back().ms);
  if (!own_quotas_.empty()) {
    const double whole = own_quotas_.back().ms;
    host_ = profile.alone.empty() ? whole : std::min(whole, host_);
    device_bound_ = whole - host_ > kBoundBy;
  }
  struct Reference {
    double measured, device, floor, z;
  };
  std::vector<Reference> references;
  for (const TimeAt& t : profile.alone)
    references.push_back(
        {std::log(t.ms), log_device(log_of(t.share), 0), alone, log_of(t.share) + 1});
  if (!own_quotas_.empty() && !profile.alone.empty())
    references.push_back(
        {own_quotas_.back().ms, log_device(0, std::log(profile.quota_batch)), host_, 1});

  std::array<double, 2> theta{0, 0};
  for (int round = 0; round < kRounds; ++round) {
    double a = weights_.stiffness[0], b = 0, d = weights_.stiffness[1];
    double g0 = -a * theta[0], g1 = -d * theta[1];
    for (const Reference& r : references) {
      const double device = r.device + theta[0] + theta[1] * r.z;
      const double weight = 1 / (1 + std::exp(-k * (device - r.floor)));
      const double off =
          std::clamp(r.measured - sharp_max(device, r.floor, k), -kMostOff, kMostOff);
      a += weight * weight;
      b += weight * weight * r.z;
      d += weight * weight * r.z * r.z;
      g0 += weight * off;
      g1 += weight * off * r.z;
    }
    const double determinant = a * d - b * b;
    theta[0] += (d * g0 - b * g1) / determinant;
    theta[1] += (a * g1 - b * g0) / determinant;
  }
  correction_ = theta;
}

}  // namespace sluice::predict
