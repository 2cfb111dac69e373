#include "learn/rates.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <vector>

namespace sluice::learn {
namespace {

using predict::kWorkKinds;
using predict::Work;

constexpr double kNoHost = -30;  // log ms of an operator's issue: a CPU is its own host

// Of a model's whole batch.
Work work_of(const OperatorGraph& graph, int batch) {
  Work sum{};
  for (const predict::CountedOperator& o : predict::counted(graph)) {
    const Work one = o.features.work(batch);
    for (size_t k = 0; k < kWorkKinds; ++k) sum[k] += o.count * one[k];
  }
  return sum;
}

// The w ≥ 0 with the least Σ (row · w − 1)², by descent along one of them at a time.
std::vector<double> least_squares(const std::vector<Work>& rows) {
  constexpr int kRounds = 2000;
  std::vector<double> w(kWorkKinds, 0), missing(rows.size(), 1);
  for (int round = 0; round < kRounds; ++round) {
    for (size_t k = 0; k < kWorkKinds; ++k) {
      double along = 0, square = 0;
      for (size_t i = 0; i < rows.size(); ++i) {
        along += rows[i][k] * missing[i];
        square += rows[i][k] * rows[i][k];
      }
      if (square == 0) continue;
      const double step = std::max(along / square, -w[k]);
      w[k] += step;
      for (size_t i = 0; i < rows.size(); ++i) missing[i] -= step * rows[i][k];
    }
  }
  return w;
}

}  // namespace

predict::WorkWeights fit_rates(const trace::LatencyData& data, const Chosen& chosen) {
  std::vector<Work> rows;
  for (const trace::LatencyModel& m : data.models) {
    for (const trace::LatencyPoint& p : m.points) {
      if (p.at.sm != kWhole || p.at.quota != kWhole || !chosen(m, p)) continue;
      Work row = work_of(m.graph, p.at.batch);
      for (double& x : row) x /= p.ms;
      rows.push_back(row);
    }
  }
  predict::WorkWeights w;
  w.rates = least_squares(rows);
  w.issue.assign(std::size(kOperatorTypes), kNoHost);
  w.throttle = {{Share{100}, std::log(10)}, {kWhole, 0}};
  return w;
}

}  // namespace sluice::learn
