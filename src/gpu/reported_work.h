// What a process reports of its work on a GPU, bounded: its page may say anything.
//
// Finished work never falls and is never more than submitted; neither grows faster than kFastest.
// Pure; not thread-safe.
#pragma once

#include "base/clock.h"
#include "wire/permit_page.h"

namespace sluice::node {

class ReportedWork {
 public:
  // The longest work in flight that counts, as everywhere (ArbiterConfig's drain_bound).
  static constexpr Nanos kMostInFlight = Millis(200);
  // Work that is expected alone, in a second, of units that run side by side. Keeps sums far from
  // the end of Nanos.
  static constexpr int kFastest = 1000;
  static constexpr Nanos kMost{int64_t{1}
                               << 54};  // 208 days; 256 processes' are below Nanos::max()
  // A launch that the driver refused is taken back, and an unknown unit's charge corrected.
  static constexpr Nanos kMostTakenBack = Millis(1);

  explicit ReportedWork(Time since)
      : since_(since), seen_(since), worked_(since), progressed_(since) {}

  void update(const sluice_device_report& report, Time now);

  bool ever() const { return ever_; }  // it has reported
  Time seen() const { return seen_; }  // the last report is at least as new
  Nanos submitted() const { return submitted_; }
  Nanos finished() const { return finished_; }
  Nanos host() const { return host_; }
  Nanos longest() const { return longest_; }
  bool stalled() const { return stalled_; }
  bool awaiting() const { return awaiting_; }
  Nanos in_flight() const { return std::min(submitted_ - finished_, kMostInFlight); }
  // The last report of work that had ended, or of none in flight; the last of the first kind.
  Time worked() const { return worked_; }
  Time progressed() const { return progressed_; }
  Time quiet_by() const { return worked_ + in_flight(); }  // the work in flight has run then

 private:
  const Time since_;
  Time seen_, worked_, progressed_;
  Nanos submitted_{0}, finished_{0}, host_{0}, longest_{0};
  uint64_t stamp_ = 0;  // of the last report, as written
  bool stalled_ = false, awaiting_ = false, ever_ = false;
};

}  // namespace sluice::node
