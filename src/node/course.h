// How a cumulative figure went over the last seconds, so that it can be compared with an account of
// a stretch of time that is told late. A value; not thread-safe.
#pragma once

#include <algorithm>
#include <deque>

#include "base/clock.h"

namespace sluice::node {

class Course {
 public:
  static constexpr Nanos kStep = Millis(5);  // points lie so far apart, at least
  static constexpr size_t kPoints = 1024;

  void add(Time at, Nanos value) {
    if (points_.size() >= 2 && at - points_[points_.size() - 2].at < kStep) points_.pop_back();
    points_.push_back({at, value});
    if (points_.size() > kPoints) points_.pop_front();
  }

  // So much more had come together in that stretch than was known, evenly.
  void raise(Time from, Time until, Nanos by) {
    for (Point& p : points_) {
      const double part = seconds(p.at - from) / seconds(until - from);
      p.value += from_seconds(seconds(by) * std::clamp(part, 0.0, 1.0));
    }
  }

  // Straight between points; before the first and after the last as there.
  Nanos at(Time t) const {
    const auto after = std::upper_bound(points_.begin(), points_.end(), t,
                                        [](Time a, const Point& p) { return a < p.at; });
    if (points_.empty()) return Nanos(0);
    if (after == points_.begin()) return points_.front().value;
    if (after == points_.end()) return points_.back().value;
    const Point &a = *(after - 1), &b = *after;
    const double part = seconds(t - a.at) / seconds(b.at - a.at);
    return a.value + from_seconds(seconds(b.value - a.value) * part);
  }

  // Of a stretch of time.
  Nanos over(Time from, Time until) const { return at(until) - at(from); }
  // Whether all of a stretch since then is known.
  bool reaches(Time from) const { return !points_.empty() && points_.front().at <= from; }

 private:
  struct Point {
    Time at;
    Nanos value;
  };
  std::deque<Point> points_;
};

}  // namespace sluice::node
