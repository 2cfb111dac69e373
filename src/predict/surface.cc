#include "predict/surface.h"

#include <algorithm>
#include <set>

#include "base/check.h"

namespace sluice::predict {
namespace {

struct Point {
  double x, y;
};

// Linear between points of ascending x; outside, the nearest one's y.
double interpolate(const std::vector<Point>& points, double x) {
  const auto right =
      std::find_if(points.begin(), points.end(), [&](const Point& p) { return p.x >= x; });
  if (right == points.end()) return points.back().y;
  if (right == points.begin() || right->x == x) return right->y;
  const Point& a = *(right - 1);
  return a.y + (right->y - a.y) * (x - a.x) / (right->x - a.x);
}

// No y above one further right: the better of two that contradict each other holds.
void make_ascending(std::vector<Point>& points) {
  for (size_t i = points.size() - 1; i-- > 0;) points[i].y = std::min(points[i].y, points[i + 1].y);
}

double inverse(Share s) {
  return 1 / s.fraction();
}

}  // namespace

void Surface::add(const Configuration& at, Nanos time) {
  SLUICE_CHECK(at.batch > 0 && at.sm > kNone && at.quota > kNone, "a point of nothing");
  by_batch_[at.batch][at.sm][at.quota] = static_cast<double>(time.count());
}

double Surface::at_quota(const ByQuota& points, Share quota, Nanos wait) {
  std::vector<Point> times;  // over 1 ÷ quota
  for (auto p = points.rbegin(); p != points.rend(); ++p)
    times.push_back({inverse(p->first), p->second});
  make_ascending(times);
  const Share smallest = points.begin()->first;
  if (quota >= smallest) return interpolate(times, inverse(quota));
  const double part = quota.fraction() / smallest.fraction();
  return times.back().y / part + (1 - part) * static_cast<double>(wait.count());
}

double Surface::at_sm(const BySm& points, Share sm, Share quota, Nanos wait) {
  std::vector<Point> times;  // over 1 ÷ sm
  for (auto p = points.rbegin(); p != points.rend(); ++p) {
    times.push_back({inverse(p->first), at_quota(p->second, quota, wait)});
  }
  make_ascending(times);
  const Share smallest = points.begin()->first;
  if (sm >= smallest) return interpolate(times, inverse(sm));
  return times.back().y * smallest.fraction() / sm.fraction();
}

std::optional<Nanos> Surface::at(const Configuration& c, Nanos wait) const {
  if (by_batch_.empty() || c.batch <= 0 || c.sm <= kNone || c.quota <= kNone) return std::nullopt;
  std::vector<Point> times;  // over batch
  for (const auto& [batch, points] : by_batch_) {
    times.push_back({static_cast<double>(batch), at_sm(points, c.sm, c.quota, wait)});
  }
  make_ascending(times);
  double time = interpolate(times, c.batch);
  const int largest = by_batch_.rbegin()->first;
  if (c.batch > largest) time *= static_cast<double>(c.batch) / largest;
  return Nanos(static_cast<int64_t>(time));
}

std::vector<int> Surface::batches() const {
  std::vector<int> found;
  for (const auto& [batch, points] : by_batch_) found.push_back(batch);
  return found;
}

std::vector<Share> Surface::sms() const {
  std::set<Share> found;
  for (const auto& [batch, points] : by_batch_) {
    for (const auto& [sm, by_quota] : points) found.insert(sm);
  }
  return {found.begin(), found.end()};
}

}  // namespace sluice::predict
