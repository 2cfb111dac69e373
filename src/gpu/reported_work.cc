#include "gpu/reported_work.h"

#include <algorithm>
#include <utility>

namespace sluice::node {
namespace {

Nanos bounded(uint64_t ns, Nanos most) {
  return Nanos(std::min(ns, static_cast<uint64_t>(most.count())));
}

}  // namespace

void ReportedWork::update(const sluice_device_report& report, Time now) {
  stalled_ = report.stalled != 0;
  awaiting_ = report.awaiting != 0;
  const Time seen(bounded(report.seen_ns, now.time_since_epoch()));
  // An old report, or none. One that says it is from the future counts once, not at each poll.
  if (std::exchange(stamp_, report.seen_ns) == report.seen_ns || seen <= seen_) return;
  seen_ = seen;
  ever_ = true;
  const Nanos age = std::min<Nanos>(now - since_, kMost / kFastest), before = finished_;
  const Nanos most = kFastest * age;
  finished_ = std::max(finished_, bounded(report.finished_ns, most));
  submitted_ =
      std::max({bounded(report.submitted_ns, most), finished_, submitted_ - kMostTakenBack});
  host_ = std::max(host_, bounded(report.host_ns, most));
  longest_ = bounded(report.longest_ns, most);
  if (finished_ > before) progressed_ = seen_;
  if (finished_ > before || submitted_ == finished_) worked_ = seen_;
}

}  // namespace sluice::node
