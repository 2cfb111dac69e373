#include "learn/evaluation.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <memory>
#include <numeric>
#include <tuple>
#include <utility>

namespace sluice::learn {
namespace {

double quantile(std::vector<double>& sorted, double p) {
  if (sorted.empty()) return 0;
  const double at = p * static_cast<double>(sorted.size() - 1);
  const auto low = static_cast<size_t>(at);
  const size_t high = std::min(low + 1, sorted.size() - 1);
  return sorted[low] + (sorted[high] - sorted[low]) * (at - static_cast<double>(low));
}

// Linear in both logarithms; beyond the ends in inverse proportion below, and flat above.
double log_between(const std::map<double, double>& known, double x) {
  const auto above = known.lower_bound(x);
  if (above == known.begin()) return above->second + (above->first - x);
  if (above == known.end()) return known.rbegin()->second;
  const auto below = std::prev(above);
  const double part = (x - below->first) / (above->first - below->first);
  return below->second + part * (above->second - below->second);
}

double log_of(Share s) {
  return std::log(s.permille / 1000.0);
}

// Σ operator times, by the logarithm of the sm.
std::map<double, double> alone_of(const trace::LatencyData& data, const trace::LatencyModel& m) {
  std::map<double, double> times;
  for (const predict::TimeAt& t : profile_of(data, m).alone)
    times[log_of(t.share)] = std::log(t.ms);
  return times;
}

// The known points of each model in rows that differ along one axis.
using Row = std::tuple<int, Share>;
ModelPredictor along(const trace::LatencyData& data, const Chosen& known,
                     const std::function<Row(const Configuration&)>& row,
                     const std::function<double(const Configuration&)>& place) {
  auto rows = std::make_shared<std::map<std::string, std::map<Row, std::map<double, double>>>>();
  for (const trace::LatencyModel& m : data.models)
    for (const trace::LatencyPoint& p : m.points)
      if (known(m, p)) (*rows)[m.name][row(p.at)][place(p.at)] = std::log(p.ms);
  return [=](const trace::LatencyModel& m, const std::vector<Configuration>& all) {
    Predictions out;
    for (const Configuration& c : all) {
      const auto found = (*rows)[m.name].find(row(c));
      out.emplace_back();
      if (found != (*rows)[m.name].end())
        out.back() = std::exp(log_between(found->second, place(c)));
    }
    return out;
  };
}

}  // namespace

Errors errors_of(std::string predictor, std::string split, const trace::LatencyData& data,
                 const Chosen& chosen, const ModelPredictor& predict) {
  Errors e{.predictor = std::move(predictor), .split = std::move(split)};
  std::vector<double> off;
  for (const trace::LatencyModel& m : data.models) {
    std::vector<Configuration> at;
    std::vector<double> ms;
    for (const trace::LatencyPoint& p : m.points) {
      if (is_profiled(data, p.at) || !chosen(m, p)) continue;
      at.push_back(p.at);
      ms.push_back(p.ms);
    }
    if (at.empty()) continue;
    const Predictions predicted = predict(m, at);
    for (size_t i = 0; i < at.size(); ++i) {
      ++e.points;
      if (predicted[i])
        off.push_back(100 * std::abs(*predicted[i] / ms[i] - 1));
      else
        ++e.without;
    }
  }
  std::sort(off.begin(), off.end());
  if (!off.empty())
    e.mean = std::accumulate(off.begin(), off.end(), 0.0) / static_cast<double>(off.size());
  e.median = quantile(off, 0.5);
  e.p90 = quantile(off, 0.9);
  return e;
}

ModelPredictor by_work(const trace::LatencyData& data, predict::WorkWeights weights,
                       bool profiled) {
  return [&data, w = std::move(weights), profiled](const trace::LatencyModel& m,
                                                   const std::vector<Configuration>& at) {
    const predict::ShortProfile profile = profile_of(data, m);
    const predict::WorkEstimate estimate(w, m.graph, profiled ? &profile : nullptr);
    Predictions out;
    for (const double ms : estimate.ms(at)) out.emplace_back(ms);
    return out;
  };
}

ModelPredictor operators_rule(const trace::LatencyData& data) {
  return [&data](const trace::LatencyModel& m, const std::vector<Configuration>& all) {
    const auto alone = alone_of(data, m);
    Predictions out(all.size());
    for (size_t i = 0; i < all.size() && !alone.empty(); ++i)
      out[i] =
          std::exp(log_between(alone, log_of(all[i].sm))) * all[i].batch / all[i].quota.fraction();
    return out;
  };
}

ModelPredictor slower_side_rule(const trace::LatencyData& data) {
  return [&data](const trace::LatencyModel& m, const std::vector<Configuration>& all) {
    const auto alone = alone_of(data, m);
    std::map<double, double> quotas;
    for (const predict::TimeAt& t : profile_of(data, m).quotas)
      quotas[log_of(t.share)] = std::log(t.ms);
    Predictions out(all.size());
    for (size_t i = 0; i < all.size() && !alone.empty() && !quotas.empty(); ++i) {
      const double device = log_between(alone, log_of(all[i].sm) - std::log(all[i].batch));
      out[i] = std::exp(std::max(device, log_between(quotas, log_of(all[i].quota))));
    }
    return out;
  };
}

ModelPredictor along_sm(const trace::LatencyData& data, const Chosen& known) {
  return along(
      data, known,
      [](const Configuration& c) {
        return Row{c.batch, c.quota};
      },
      [](const Configuration& c) { return log_of(c.sm); });
}

ModelPredictor along_quota(const trace::LatencyData& data, const Chosen& known) {
  return along(
      data, known,
      [](const Configuration& c) {
        return Row{c.batch, c.sm};
      },
      [](const Configuration& c) { return log_of(c.quota); });
}

}  // namespace sluice::learn
