#include "train/all_reduce_history.h"

#include <algorithm>
#include <cmath>
#include <vector>

namespace sluice::train {
namespace {

constexpr double kLeastPart = 0.2;  // of a new time
constexpr double kMostOfASum = 1e12, kLongestSum = 1e4;
constexpr double kMostBytesASecond = 1e12;
constexpr int kMostWorkers = 1024;

}  // namespace

void AllReduceHistory::add(const Workers& workers, double bytes, double seconds) {
  if (workers.count < 2 || workers.count > kMostWorkers || !(bytes >= 1 && bytes <= kMostOfASum))
    return;
  if (!(seconds <= kLongestSum && seconds > bytes / kMostBytesASecond)) return;
  Mean& mean = means_[{workers.count, workers.nodes > 1, std::ilogb(bytes)}];
  const double weight = std::max(1.0 / ++mean.count, kLeastPart);
  mean.bytes += weight * (bytes - mean.bytes);
  mean.seconds += weight * (seconds - mean.seconds);
}

std::optional<predict::CollectiveModel> AllReduceHistory::model(bool several_nodes) const {
  std::vector<predict::CollectiveSample> samples;
  for (const auto& [configuration, mean] : means_)
    if (std::get<1>(configuration) == several_nodes)
      samples.push_back({std::get<0>(configuration), mean.bytes, mean.seconds});
  return predict::fit_collective(samples);
}

}  // namespace sluice::train
