#include "learn/points.h"

#include <algorithm>
#include <iterator>

namespace sluice::learn {

bool is_profiled(const trace::LatencyData& data, const Configuration& c) {
  if (data.sms.empty() && c.batch == 1 && c.quota == kWhole) return true;
  return c.batch == kProfiledBatch && c.sm == kWhole &&
         std::find(std::begin(kProfiledQuotas), std::end(kProfiledQuotas), c.quota) !=
             std::end(kProfiledQuotas);
}

predict::ShortProfile profile_of(const trace::LatencyData& data, const trace::LatencyModel& model) {
  predict::ShortProfile p{.alone = {}, .quotas = {}, .quota_batch = kProfiledBatch};
  for (size_t s = 0; s < data.sms.size(); ++s) {
    double ms = 0;
    for (const std::vector<double>& one : model.operator_ms)
      if (s < one.size()) ms += one[s];
    if (ms > 0) p.alone.push_back({data.sms[s], ms});
  }
  for (const trace::LatencyPoint& point : model.points) {
    if (!is_profiled(data, point.at)) continue;
    if (point.at.batch == kProfiledBatch)
      p.quotas.push_back({point.at.quota, point.ms});
    else
      p.alone.push_back({point.at.sm, point.ms});
  }
  return p;
}

bool has_profile(const trace::LatencyData& data, const trace::LatencyModel& model) {
  const predict::ShortProfile p = profile_of(data, model);
  const bool whole = !p.quotas.empty() && p.quotas.back().share == kWhole;
  if (data.sms.empty()) return whole && !p.alone.empty() && p.alone.back().share == kWhole;
  return p.alone.size() == data.sms.size() && p.quotas.size() == std::size(kProfiledQuotas);
}

}  // namespace sluice::learn
