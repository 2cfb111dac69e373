// What a process reports that its device did for it, bounded: its page may say anything.
//
// Busy time grows with the report, never faster in sum than time passes, and never falls. Work in
// flight counts as it would run, from the last report of progress on: so a stopped process goes on
// being busy until its queue must be empty. Pure; not thread-safe.
#pragma once

#include "base/clock.h"
#include "wire/permit_page.h"

namespace sluice::node {

class ReportedUse {
 public:
  // The longest work in flight that counts, as everywhere (ArbiterConfig's drain_bound).
  static constexpr Nanos kMostInFlight = Millis(200);

  explicit ReportedUse(Time since)
      : since_(since), seen_(since), progress_(since), worked_(since) {}

  void update(const sluice_device_report& report, Time now);

  bool ever() const { return ever_; }  // it has reported
  Time seen() const { return seen_; }  // the last report is at least as new
  Nanos in_flight() const { return in_flight_; }
  // Cumulative, with the part of the work in flight that will have run by then. Falls when work
  // ends sooner than was expected of it.
  Nanos busy(Time now) const;
  Time worked() const { return worked_; }  // the last report of work that had ended
  Time quiet_by() const { return progress_ + in_flight_; }  // the work in flight has run then

 private:
  const Time since_;
  Time seen_;
  Time progress_;  // the last report of work that had ended, or of none in flight
  Time worked_;
  uint64_t word_ns_ = 0;  // as reported
  Nanos busy_{0};
  Nanos in_flight_{0};
  bool ever_ = false;
};

}  // namespace sluice::node
