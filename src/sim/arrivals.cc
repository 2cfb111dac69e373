#include "sim/arrivals.h"

namespace sluice::sim {

Nanos total_duration(const RatePlan& plan) {
  Nanos sum{0};
  for (const RateStep& s : plan) sum += s.duration;
  return sum;
}

double total_requests(const RatePlan& plan) {
  double sum = 0;
  for (const RateStep& s : plan) sum += s.rate * seconds(s.duration);
  return sum;
}

Arrivals::Arrivals(RatePlan plan, Gaps gaps, uint64_t seed)
    : plan_(std::move(plan)), gaps_(gaps), random_(seed) {}

double Arrivals::draw() {
  switch (gaps_.kind) {
    case Gaps::Kind::kConstant:
      return 1;
    case Gaps::Kind::kPoisson:
      return random_.exponential(1);
    case Gaps::Kind::kGamma:
      return random_.gamma(1 / (gaps_.cv * gaps_.cv), gaps_.cv * gaps_.cv);
  }
  return 1;
}

std::optional<Nanos> Arrivals::next() {
  double left = draw();  // of the plan's area, until the next arrival
  for (; step_ < plan_.size(); ++step_) {
    const double end = step_begin_ + seconds(plan_[step_].duration);
    const double area = (end - at_) * plan_[step_].rate;
    if (left < area) {
      at_ += left / plan_[step_].rate;
      return from_seconds(at_);
    }
    left -= area;
    at_ = step_begin_ = end;
  }
  return std::nullopt;
}

}  // namespace sluice::sim
