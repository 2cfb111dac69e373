// When a group's quota is written. The kernel gives a group the runtime of a new period at each
// write, and lets it run at once. So a group whose quota follows a storm of resizes would never
// stop.
//
//   A group has kMost writes, and earns one in kPeriodsPerWrite periods.
//   A raise is written at once: a client that keeps to its permits is never stopped. Without a
//   write left it goes on credit, and then kHeadroom above what was asked, so that few can follow.
//   A cut takes kMost writes of which it leaves the last, for the raise that may follow. Until then
//   the group keeps what it has.
//
// The bound: a write gives at most the runtime and the burst of a period, two quotas. So however
// often its limit is changed, in the long run a group gets at most 2 ÷ kPeriodsPerWrite above the
// largest quota asked for, × kHeadroom where raises went on credit; kMost writes come on top, once.
//
// Pure; one group's. Not thread-safe.
#pragma once

#include <optional>

#include "base/clock.h"

namespace sluice::node {

class QuotaWrites {
 public:
  static constexpr double kMost = 2;
  static constexpr int kPeriodsPerWrite = 10;
  static constexpr double kHeadroom = 1.25;

  explicit QuotaWrites(Nanos period) : period_(period) {}

  // The group's quota should be so many millicores. Returns what is to be written now; the first
  // is.
  std::optional<double> ask(double millicores, Time now);
  // Returns what has waited and is to be written now; to be called at least once in a few periods.
  std::optional<double> poll(Time now);

 private:
  void earn(Time now);
  double take(double millicores);

  Nanos period_;
  std::optional<double> written_;
  double asked_ = 0;
  double left_ = kMost;  // writes; -1: a raise went on credit
  Time earned_{};
};

}  // namespace sluice::node
