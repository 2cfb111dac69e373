// What a process says that its device did for it, made harmless: the page's words may be anything.
//
// Busy time grows with what is reported, never faster than time passes (in sum: a kernel of 20 ms
// is reported when it ends), and not at all when the page says less than before. Work in flight
// counts as it would run, from the last news of it on, for as long as the process said: so a
// process that is stopped goes on being busy until its queue is empty. Pure; not thread-safe.
#pragma once

#include "base/clock.h"
#include "wire/permit_page.h"

namespace sluice::node {

class ClaimedUse {
 public:
  // The longest piece of work that is believed, as everywhere (ArbiterConfig's drain_bound).
  static constexpr Nanos kMostInFlight = Millis(200);

  explicit ClaimedUse(Time since) : since_(since), seen_(since), progress_(since), worked_(since) {}

  void hear(const sluice_device_report& report, Time now);

  bool ever() const { return ever_; }  // it has reported
  Time seen() const { return seen_; }  // what it said is at least as new
  Nanos in_flight() const { return in_flight_; }
  // Cumulative, with the part of the work in flight that will have run by then; less than before
  // where work ended sooner than was expected of it.
  Nanos busy(Time now) const;
  // The last news of work that had ended.
  Time worked() const { return worked_; }
  // The work in flight has run then.
  Time quiet_by() const { return progress_ + in_flight_; }

 private:
  Time since_;
  Time seen_, progress_;  // of the last report; of the last that said that work had ended or
                          // that there is none
  Time worked_;
  uint64_t told_ns_ = 0;  // the word as it was
  Nanos told_{0};         // what came of it
  Nanos busy_{0};         // of that, what can have been
  Nanos in_flight_{0};
  bool ever_ = false;
};

}  // namespace sluice::node
