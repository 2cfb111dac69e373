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
  // REQUIRES: batch, sm, quota > 0
  void add(const Configuration& at, Nanos time);

  // Nothing: no point was added, or `c` holds nothing.
  std::optional<Nanos> at(const Configuration& c, Nanos wait) const;

  std::vector<int> batches() const;  // measured, ascending
  std::vector<Share> sms() const;

 private:
  using ByQuota = std::map<Share, double>;  // nanoseconds
  using BySm = std::map<Share, ByQuota>;

  static double at_quota(const ByQuota& points, Share quota, Nanos wait);
  static double at_sm(const BySm& points, Share sm, Share quota, Nanos wait);

  std::map<int, BySm> by_batch_;
};

}  // namespace sluice::predict
