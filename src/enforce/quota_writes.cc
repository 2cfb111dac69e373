#include "enforce/quota_writes.h"

#include <algorithm>

namespace sluice::node {

std::optional<double> QuotaWrites::ask(double millicores, Time now) {
  asked_ = millicores;
  if (!written_) {
    earned_ = now;
    return written_ = millicores;
  }
  if (asked_ <= *written_) return poll(now);
  earn(now);
  return take(left_ >= 1 ? asked_ : asked_ * kHeadroom);
}

std::optional<double> QuotaWrites::poll(Time now) {
  earn(now);
  if (!written_ || asked_ >= *written_ || left_ < kMost) return std::nullopt;
  return take(asked_);
}

void QuotaWrites::earn(Time now) {
  const double periods = seconds(now - earned_) / seconds(period_);
  left_ = std::min(kMost, left_ + periods / kPeriodsPerWrite);
  earned_ = now;
}

double QuotaWrites::take(double millicores) {
  left_ = std::max(left_ - 1, -1.0);
  written_ = millicores;
  return millicores;
}

}  // namespace sluice::node
