#include "predict/surface.h"

#include <algorithm>
#include <iterator>

#include "base/check.h"

namespace sluice::predict {
namespace {

double inverse(Share s) {
  return 1 / s.fraction();
}

// The time at x from points that come by descending x: linear in between; outside, the nearest
// one's. A point is no longer than one further right: the better of two that contradict each other
// holds. Allocates nothing: policies ask very often.
class FromTheRight {
 public:
  explicit FromTheRight(double x) : x_(x) {}

  // False: the points further left no longer matter.
  bool add(double x, double time) {
    const double better = some_ ? std::min(time, right_time_) : time;
    if (x > x_ || (!some_ && x < x_)) {  // x_ lies further left, or right of all points
      right_ = x, right_time_ = better, some_ = true;
      return x > x_;
    }
    if (x < x_) {
      right_time_ = better + (right_time_ - better) * (x_ - x) / (right_ - x);
    } else {
      right_time_ = better;
    }
    some_ = true;
    return false;
  }
  double time() const { return right_time_; }  // REQUIRES: a point was added

 private:
  const double x_;
  bool some_ = false;
  double right_ = 0, right_time_ = 0;
};

// The last entry up to `key` and the first from it on. REQUIRES: key is within the map's keys.
template <class Map, class Key>
auto around(const Map& map, const Key& key) {
  const auto from = map.lower_bound(key);
  return std::pair(from->first == key ? from : std::prev(from), from);
}

template <class Map, class Key>
bool within(const Map& map, const Key& key) {
  return !map.empty() && map.begin()->first <= key && key <= map.rbegin()->first;
}

template <class T>
void insert_once(std::vector<T>& ascending, const T& value) {
  const auto at = std::ranges::lower_bound(ascending, value);
  if (at == ascending.end() || *at != value) ascending.insert(at, value);
}

}  // namespace

void Surface::add(const Configuration& at, Nanos time, bool filled) {
  SLUICE_CHECK(at.batch > 0 && at.sm > kNone && at.quota > kNone, "a point of nothing");
  Curve& curve = by_batch_[at.batch][at.sm];
  const auto place =
      std::ranges::lower_bound(curve, at.quota, std::ranges::greater(), &Point::quota);
  insert_once(batches_, at.batch);
  insert_once(sms_, at.sm);
  const auto measured = static_cast<double>(time.count());
  if (place != curve.end() && place->quota == at.quota)
    *place = {at.quota, measured, measured, filled};
  else
    curve.insert(place, {at.quota, measured, measured, filled});
  curve.back().time = curve.back().measured;
  for (size_t i = curve.size() - 1; i-- > 0;)
    curve[i].time = std::min(curve[i].measured, curve[i + 1].time);
}

double Surface::at_quota(const Curve& curve, Share quota, Nanos wait) {
  const Point& smallest = curve.back();
  if (quota < smallest.quota) {
    const double part = quota.fraction() / smallest.quota.fraction();
    return smallest.time / part + (1 - part) * static_cast<double>(wait.count());
  }
  const auto right = std::ranges::find_if(curve, [&](const Point& p) { return p.quota <= quota; });
  if (right == curve.begin() || right->quota == quota) return right->time;
  const Point& left = *std::prev(right);
  return left.time + (right->time - left.time) * (inverse(quota) - inverse(left.quota)) /
                         (inverse(right->quota) - inverse(left.quota));
}

double Surface::at_sm(const BySm& curves, Share sm, Share quota, Nanos wait) {
  const auto& [smallest, curve] = *curves.begin();
  if (sm < smallest) return at_quota(curve, quota, wait) * smallest.fraction() / sm.fraction();
  FromTheRight times(inverse(sm));
  for (const auto& [width, points] : curves)
    if (!times.add(inverse(width), at_quota(points, quota, wait))) break;
  return times.time();
}

std::optional<Nanos> Surface::at(const Configuration& c, Nanos wait) const {
  if (by_batch_.empty() || c.batch <= 0 || c.sm <= kNone || c.quota <= kNone) return std::nullopt;
  FromTheRight times(c.batch);
  for (auto it = by_batch_.rbegin(); it != by_batch_.rend(); ++it)
    if (!times.add(it->first, at_sm(it->second, c.sm, c.quota, wait))) break;
  double time = times.time();
  const int largest = by_batch_.rbegin()->first;
  if (c.batch > largest) time *= static_cast<double>(c.batch) / largest;
  return Nanos(static_cast<int64_t>(time));
}

PredictionSource Surface::source(const Configuration& c) const {
  if (!within(by_batch_, c.batch)) return PredictionSource::kExtrapolated;
  const auto [below, above] = around(by_batch_, c.batch);
  bool measured = below == above;
  for (const auto& curves : {below, above}) {
    if (!within(curves->second, c.sm)) return PredictionSource::kExtrapolated;
    const auto [narrow, wide] = around(curves->second, c.sm);
    measured = measured && narrow == wide;
    for (const auto& curve : {narrow, wide}) {
      const Curve& points = curve->second;
      if (c.quota > points.front().quota || c.quota < points.back().quota)
        return PredictionSource::kExtrapolated;
      measured = measured && std::ranges::any_of(points, [&](const Point& p) {
                   return p.quota == c.quota && !p.filled;
                 });
    }
  }
  return measured ? PredictionSource::kMeasured : PredictionSource::kInterpolated;
}

}  // namespace sluice::predict
