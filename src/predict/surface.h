// Surface: a time over (batch, sm, quota), known at measured points.
//
//   quota   linear in 1 ÷ quota between points of the same (batch, sm); below the smallest quota m
//           (often only the whole was measured) time(m) · m ÷ q + (1 − q ÷ m) · wait; above the
//           largest as there.
//   sm      linear in 1 ÷ sm, as work that divides over cores is; below the smallest in proportion;
//           above the largest as there.
//   batch   linear; above the largest in proportion; below the smallest as there.
//
// Monotone: measurements are noisy, but resources do not hurt and a larger batch takes no less.
// Where a point says otherwise, the better of the two holds. A plain value, not thread-safe while
// filled.
#pragma once

#include <map>
#include <optional>
#include <vector>

#include "model/predictor.h"

namespace sluice::predict {

class Surface {
 public:
  // Replaces the time of the same point.
  // REQUIRES: batch, sm, quota > 0
  void add(const Configuration& at, Nanos time, bool filled = false);

  // Nothing: no point was added, or `c` holds nothing.
  std::optional<Nanos> at(const Configuration& c, Nanos wait) const;

  // What at(c) stands on: a point that is not filled, points on both sides on every axis, or less.
  PredictionSource source(const Configuration& c) const;

  const std::vector<int>& batches() const { return batches_; }  // measured, ascending
  const std::vector<Share>& sms() const { return sms_; }

 private:
  struct Point {
    Share quota;
    double measured = 0;  // nanoseconds
    double time = 0;      // … made monotone
    bool filled = false;
  };
  using Curve = std::vector<Point>;  // over quota, descending
  using BySm = std::map<Share, Curve>;

  static double at_quota(const Curve& curve, Share quota, Nanos wait);
  static double at_sm(const BySm& curves, Share sm, Share quota, Nanos wait);

  std::map<int, BySm> by_batch_;
  std::vector<int> batches_;
  std::vector<Share> sms_;
};

}  // namespace sluice::predict
