#include "node/claimed_use.h"

#include <algorithm>

namespace sluice::node {
namespace {

// As much of a word as means anything: sums of it stay far from the end of Nanos.
Nanos bounded(uint64_t ns, Nanos most) {
  return Nanos(std::min(ns, static_cast<uint64_t>(most.count())));
}

// The page may be so much newer than it says.
constexpr Nanos kNewer = Millis(1);
constexpr Nanos kDay = std::chrono::hours(24);

}  // namespace

void ClaimedUse::hear(const sluice_device_report& report, Time now) {
  const Time seen(bounded(report.seen_ns, now.time_since_epoch()));
  if (seen <= seen_) return;  // nothing new, or nothing at all
  seen_ = seen;
  ever_ = true;

  const Nanos grown =
      report.busy_ns > told_ns_ ? bounded(report.busy_ns - told_ns_, kDay) : Nanos(0);
  told_ns_ = report.busy_ns;
  const Nanos passed = seen_ - since_;
  told_ = std::min(told_ + grown, passed + kNewer);
  const Nanos before = busy_;
  busy_ = std::max(busy_, std::min(told_, passed));
  if (busy_ > before) worked_ = seen_;
  if (busy_ > before || in_flight_ == Nanos(0)) progress_ = seen_;
  in_flight_ = bounded(report.in_flight_ns, kMostInFlight);
}

Nanos ClaimedUse::busy(Time now) const {
  return busy_ + std::clamp(now - progress_, Nanos(0), in_flight_);
}

}  // namespace sluice::node
