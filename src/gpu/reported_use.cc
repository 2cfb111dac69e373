#include "gpu/reported_use.h"

#include <algorithm>

namespace sluice::node {
namespace {

// Sums of what is cut so stay far from the end of Nanos.
Nanos bounded(uint64_t ns, Nanos most) {
  return Nanos(std::min(ns, static_cast<uint64_t>(most.count())));
}

}  // namespace

void ReportedUse::update(const sluice_device_report& report, Time now) {
  const Time seen(bounded(report.seen_ns, now.time_since_epoch()));
  if (seen <= seen_) return;  // an old report, or none
  seen_ = seen;
  ever_ = true;
  const Nanos passed = seen_ - since_, before = busy_;
  if (report.busy_ns > word_ns_)
    busy_ = std::min(busy_ + bounded(report.busy_ns - word_ns_, passed), passed);
  word_ns_ = report.busy_ns;
  if (busy_ > before) worked_ = seen_;
  if (busy_ > before || in_flight_ == Nanos(0)) progress_ = seen_;
  in_flight_ = bounded(report.in_flight_ns, kMostInFlight);
}

Nanos ReportedUse::busy(Time now) const {
  return busy_ + std::clamp(now - progress_, Nanos(0), in_flight_);
}

}  // namespace sluice::node
