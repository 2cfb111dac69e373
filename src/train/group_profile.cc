#include "train/group_profile.h"

#include <algorithm>
#include <numeric>

namespace sluice::train {
namespace {

constexpr int kUncounted = 2;
constexpr size_t kEnoughSteps = 5, kMostSteps = 200;
constexpr Nanos kLongEnough = Seconds(1);
constexpr Nanos kTooLong = Seconds(3);  // others wait for the profile: then one step is enough

template <class Of>
double mean_of(const std::vector<MeasuredStep>& steps, const Of& of) {
  double sum = 0;
  for (const MeasuredStep& s : steps) sum += of(s);
  return sum / static_cast<double>(steps.size());
}

template <class Of>
double median_of(const std::vector<MeasuredStep>& steps, const Of& of) {
  std::vector<double> values;
  for (const MeasuredStep& s : steps) values.push_back(of(s));
  const auto middle = values.begin() + static_cast<ptrdiff_t>(values.size() / 2);
  std::ranges::nth_element(values, middle);
  return *middle;
}

}  // namespace

double all_reduce_time(const GroupProfile& p) {
  return std::accumulate(p.sum_seconds.begin(), p.sum_seconds.end(), 0.0);
}

double overlap_of(const GroupProfile& p) {
  const double all = all_reduce_time(p);
  double end = 0;  // of the all-reduces so far
  for (size_t i = 0; i < p.sum_seconds.size(); ++i)
    end = std::max(end, p.step.ready_seconds[i]) + p.sum_seconds[i];
  if (!(all > 0)) return 0;
  return std::clamp(1 - std::max(end - p.step.compute_seconds, 0.0) / all, 0.0, 1.0);
}

std::optional<Profiled> FirstSteps::add(const MeasuredStep& step, const std::vector<double>& bytes,
                                        int batch, Nanos since_begin) {
  if (seen_++ < kUncounted) return std::nullopt;
  if (steps_.empty()) batch_ = batch;
  if (batch == batch_) steps_.push_back(step);
  const bool enough = steps_.size() >= kEnoughSteps && since_begin >= kLongEnough;
  if (!enough && since_begin < kTooLong && steps_.size() < kMostSteps) return std::nullopt;
  closed_ = true;
  Profiled p{.batch = batch_, .steps = static_cast<int>(steps_.size())};
  p.compute_seconds = mean_of(steps_, [](const MeasuredStep& s) { return s.compute; });
  p.optimizer_seconds = mean_of(steps_, [](const MeasuredStep& s) { return s.optimizer; });
  // Neighbours count as one bucket where there are too many.
  const size_t joined = (bytes.size() + kMostProfiledBuckets - 1) / kMostProfiledBuckets;
  for (size_t i = 0; i < bytes.size(); ++i) {
    if (i % joined == 0) {
      p.bytes.push_back(0);
      p.ready_seconds.push_back(0);
      p.sum_seconds.push_back(0);
    }
    p.bytes.back() += bytes[i];
    p.ready_seconds.back() = mean_of(steps_, [&](const MeasuredStep& s) { return s.ready[i]; });
    p.sum_seconds.back() += median_of(steps_, [&](const MeasuredStep& s) { return s.sums[i]; });
  }
  // A sum's rounding must not put them behind the end.
  for (double& ready : p.ready_seconds) ready = std::min(ready, p.compute_seconds);
  return p;
}

}  // namespace sluice::train
