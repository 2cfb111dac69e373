#include "predict/step_timeline.h"

#include <algorithm>
#include <utility>

#include "predict/box_newton.h"

namespace sluice::predict {
namespace {

using Points = std::vector<std::pair<double, double>>;  // local batch, seconds

// The line with the least squared relative errors; neither of its coefficients is negative.
BatchLine line_through(const Points& points, BatchScaling scaling) {
  const bool one_batch =
      std::ranges::all_of(points, [&](const auto& p) { return p.first == points.front().first; });
  Box<2> box{.low = {0, 0}, .high = {1e9, 1e9}};
  if (one_batch || scaling == BatchScaling::kProportional) box.high[0] = 0;
  const auto errors = [&](const Vector<2>& x) {
    Local<2> sum;
    for (const auto& [batch, seconds] : points)
      if (seconds > 0)
        sum.add_square(1, (x[0] + x[1] * batch) / seconds - 1, {1 / seconds, batch / seconds});
    return sum;
  };
  const Vector<2> x = minimise(errors, Vector<2>{}, box).at;
  return {x[0], x[1]};
}

// The two resources of a worker in time. While an all-reduce runs, computation proceeds slower.
class Progress {
 public:
  explicit Progress(double contention) : slowdown_(1 + contention) {}

  // Lets time pass until so much has been computed, in seconds of undisturbed computation.
  void compute_until(double work) {
    double left = std::max(work - done_, 0.0);
    done_ = std::max(work, done_);
    const double beside = std::min(left, std::max(link_free_ - now_, 0.0) / slowdown_);
    now_ += beside * slowdown_ + (left - beside);
  }
  // Queues an all-reduce, whose gradients are ready now.
  void communicate(double seconds) { link_free_ = std::max(link_free_, now_) + seconds; }

  double now() const { return now_; }
  double link_free() const { return link_free_; }

 private:
  const double slowdown_;
  double now_ = 0, done_ = 0;
  double link_free_ = 0;  // when all queued all-reduces have ended
};

}  // namespace

std::optional<StepProfile> profile_of(std::span<const ProfiledStep> steps,
                                      std::span<const double> bytes, BatchScaling scaling) {
  if (steps.empty()) return std::nullopt;
  std::vector<Points> ready(bytes.size());
  Points compute;
  StepProfile profile;
  for (const ProfiledStep& step : steps) {
    if (step.ready_seconds.size() != bytes.size() || !(step.local_batch > 0)) return std::nullopt;
    for (size_t i = 0; i < bytes.size(); ++i)
      ready[i].emplace_back(step.local_batch, step.ready_seconds[i]);
    compute.emplace_back(step.local_batch, step.compute_seconds);
    profile.optimizer_seconds += step.optimizer_seconds / static_cast<double>(steps.size());
  }
  for (size_t i = 0; i < bytes.size(); ++i)
    profile.buckets.push_back({line_through(ready[i], scaling), bytes[i]});
  profile.compute = line_through(compute, scaling);
  return profile;
}

StepTimeline step_timeline(const StepProfile& profile, const CollectiveModel& collective,
                           const Workers& workers, double local_batch) {
  const double work = profile.compute.at(local_batch) / workers.speed;
  Progress progress(profile.contention);
  for (const StepProfile::Bucket& bucket : profile.buckets) {
    // The lines of buckets are fitted apart: rounding may put one behind the end of compute.
    progress.compute_until(std::min(bucket.ready.at(local_batch) / workers.speed, work));
    progress.communicate(all_reduce_seconds(collective, workers.count, bucket.bytes));
  }
  progress.compute_until(work);
  StepTimeline timeline;
  timeline.compute_end = progress.now();
  timeline.communication_end = workers.count > 1 ? progress.link_free() : 0;
  timeline.step_end = std::max(timeline.compute_end, timeline.communication_end) +
                      profile.optimizer_seconds / workers.speed;
  return timeline;
}

StepSample predicted_step(const StepProfile& profile, const CollectiveModel& collective,
                          const Workers& workers, double local_batch) {
  const StepTimeline t = step_timeline(profile, collective, workers, local_batch);
  return {.workers = workers.count,
          .nodes = workers.nodes,
          .local_batch = local_batch,
          .step_seconds = t.step_end,
          .sync_seconds = std::max(t.communication_end - t.compute_end, 0.0),
          .speed = workers.speed};
}

}  // namespace sluice::predict
