#include "routing/admission.h"

#include <algorithm>
#include <cmath>

namespace sluice::policy {
namespace {

constexpr int kWaitForFirst = 8;
constexpr double kGain = 0.125;  // of a sample in the means
constexpr int kLateStep = 8;     // part of the objective
constexpr int kInTimeFor = 100;  // answers in time that make up for a late one
constexpr Nanos kForgetHalf = Seconds(10);

bool known(std::span<const ServerView> servers) {
  return std::ranges::none_of(servers, [](const ServerView& s) { return s.full <= Nanos(0); });
}

// Returns how many batches the instance can start from `now` until `last`.
int64_t starts_by(const ServerView& s, Time now, Time last) {
  if (last < now) return 0;
  const int64_t idle = s.free / s.batch;
  const int64_t busy = std::max<int64_t>(s.slots / s.batch, 1) - idle;
  int64_t starts = idle * (1 + (last - now) / s.full);
  const Time next = std::max(s.free_at, now);
  if (busy > 0 && last >= next) starts += 1 + (last - next) * busy / s.full;
  return starts;
}

}  // namespace

void ServiceTime::add(int batch, Nanos sample) {
  const double size = std::max(batch, 1);
  auto time = static_cast<double>(std::max(sample, Nanos(1)).count());
  if (!known()) {
    size_ = size;
    time_ = time;
    return;
  }
  time = std::min(time, 4 * time_);
  const double larger = size - size_, longer = time - time_;
  size_ += kGain * larger;
  time_ += kGain * longer;
  size_variance_ = (1 - kGain) * (size_variance_ + kGain * larger * larger);
  covariance_ = (1 - kGain) * (covariance_ + kGain * larger * longer);
}

Nanos ServiceTime::mean() const {
  return Nanos(static_cast<int64_t>(time_));
}

Nanos ServiceTime::of(int batch) const {
  if (!known()) return Nanos(0);
  double slope = size_variance_ > 0 ? covariance_ / size_variance_ : 0;
  slope = std::clamp(slope, 0.0, time_ / size_);
  return Nanos(
      std::max<int64_t>(1, static_cast<int64_t>(time_ + slope * (std::max(batch, 1) - size_))));
}

void LateMargin::ended(bool late, Nanos objective, Time now) {
  const Nanos step = objective / kLateStep;
  margin_ = std::clamp(at(now) + (late ? step : -step / kInTimeFor), Nanos(0), objective / 2);
  changed_ = now;
}

Nanos LateMargin::at(Time now) const {
  if (margin_ == Nanos(0)) return margin_;
  return from_seconds(seconds(margin_) *
                      std::exp2(-seconds(now - changed_) / seconds(kForgetHalf)));
}

int places_by(std::span<const ServerView> servers, Time now, Time deadline) {
  int64_t places = 0;
  for (const ServerView& s : servers) places += s.batch * starts_by(s, now, deadline - s.next);
  return static_cast<int>(std::min<int64_t>(places, 1'000'000'000));
}

Nanos time_for(std::span<const ServerView> servers, int requests) {
  double per_ns = 0;
  for (const ServerView& s : servers)
    if (s.full > Nanos(0)) per_ns += s.slots / static_cast<double>(s.full.count());
  return per_ns > 0 ? Nanos(static_cast<int64_t>(requests / per_ns)) : Nanos(0);
}

Admission admit(const Arrival& arrival, std::span<const ServerView> servers, Nanos margin,
                Nanos objective) {
  if (servers.empty()) return {};
  if (!known(servers)) {
    int slots = 0;
    for (const ServerView& s : servers) slots += s.slots;
    return {.admitted = objective <= Nanos(0) || arrival.ahead < kWaitForFirst * slots,
            .retry_after = Seconds(1)};
  }
  int free = 0;
  Nanos soonest = Nanos::max();
  for (const ServerView& s : servers) free += s.free, soonest = std::min(soonest, s.next);
  if (arrival.ahead < free) return {};
  const bool hopeless = objective > Nanos(0) && soonest > objective;
  const Time by =
      hopeless || arrival.fills_up ? arrival.deadline + soonest : arrival.deadline - margin;
  const int behind = arrival.ahead + 1 - places_by(servers, arrival.now, by);
  return {.admitted = behind <= 0, .retry_after = time_for(servers, std::max(behind, 1))};
}

}  // namespace sluice::policy
