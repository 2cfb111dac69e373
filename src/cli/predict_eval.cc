#include "cli/predict_eval.h"

#include <algorithm>
#include <cmath>
#include <iostream>
#include <map>
#include <memory>

#include "base/words.h"
#include "cli/predict_weights.h"
#include "cli/table.h"
#include "learn/evaluation.h"
#include "predict/residuals.h"

namespace sluice::cli {
namespace {

using learn::Chosen;
using learn::ModelPredictor;
using trace::LatencyData;
using trace::LatencyModel;
using trace::LatencyPoint;

// The estimate, and what the known points of the same model say beyond it.
ModelPredictor by_measurements(const LatencyData& data, const predict::WorkWeights& weights,
                               const Chosen& known) {
  return [&data, &weights, known](const LatencyModel& m, const std::vector<Configuration>& at) {
    const predict::ShortProfile profile = learn::profile_of(data, m);
    const predict::WorkEstimate estimate(weights, m.graph, &profile);
    std::vector<Configuration> measured;
    std::vector<double> ms;
    for (const LatencyPoint& p : m.points) {
      if (!known(m, p)) continue;
      measured.push_back(p.at);
      ms.push_back(p.ms);
    }
    std::vector<predict::Ratio> ratios;
    const std::vector<double> estimated = estimate.ms(measured);
    for (size_t i = 0; i < measured.size(); ++i)
      ratios.push_back({measured[i], std::log(ms[i] / estimated[i])});
    const predict::Residuals residuals(predict::Kernel(), std::move(ratios));
    learn::Predictions out;
    const std::vector<double> plain = estimate.ms(at);
    for (size_t i = 0; i < at.size(); ++i)
      out.emplace_back(plain[i] * std::exp(residuals.at(at[i]).log));
    return out;
  };
}

// The splits to judge by: the one that is named, or all but `train`; -1 is all points of a folder
// without.
Result<std::vector<int>> splits_of(const LatencyData& data, const std::string& named) {
  std::vector<int> chosen;
  for (size_t i = 0; i < data.splits.size(); ++i)
    if (named.empty() ? data.splits[i] != "train" : data.splits[i] == named)
      chosen.push_back(static_cast<int>(i));
  if (!chosen.empty()) return chosen;
  if (named.empty()) return std::vector<int>{-1};
  return Error{ErrorKind::kNotFound,
               "--split: there is no '" + named + "'; there are " + listed(data.splits)};
}

std::vector<learn::Errors> errors_of_all(const LatencyData& data,
                                         const predict::WorkWeights& weights, int split) {
  const auto train = std::find(data.splits.begin(), data.splits.end(), "train");
  const int known_split =
      train == data.splits.end() ? -2 : static_cast<int>(train - data.splits.begin());
  const Chosen known = [=](const LatencyModel&, const LatencyPoint& p) {
    return p.split == known_split;
  };
  const Chosen judged = [&data, split](const LatencyModel& m, const LatencyPoint& p) {
    return p.split == split && learn::has_profile(data, m);
  };
  std::vector<std::pair<const char*, ModelPredictor>> predictors = {
      {"work", learn::by_work(data, weights, false)},
      {"work+profile", learn::by_work(data, weights, true)},
      {"operators", learn::operators_rule(data)},
      {"slower side", learn::slower_side_rule(data)}};
  if (split >= 0) {
    predictors.emplace_back("work+measured", by_measurements(data, weights, known));
    predictors.emplace_back("along sm", learn::along_sm(data, known));
    predictors.emplace_back("along quota", learn::along_quota(data, known));
  }
  std::vector<learn::Errors> out;
  for (const auto& [name, predictor] : predictors)
    out.push_back(learn::errors_of(name,
                                   split < 0 ? "all" : data.splits[static_cast<size_t>(split)],
                                   data, judged, predictor));
  return out;
}

}  // namespace

Result<void> evaluate(const Session& session, const PredictEval& flags) {
  SLUICE_ASSIGN(learned, weights_for(flags.weights, flags.device));
  SLUICE_ASSIGN(data, trace::read_latency_data(flags.data));
  SLUICE_ASSIGN(splits, splits_of(data, flags.split));
  nlohmann::json rows = nlohmann::json::array();
  Table table({"SPLIT", "PREDICTOR", "POINTS", "MEAN", "MEDIAN", "P90"});
  for (const int split : splits)
    for (const learn::Errors& e : errors_of_all(data, learned.weights, split)) {
      const size_t points = e.points - e.without;
      rows.push_back({{"predictor", e.predictor},
                      {"split", e.split},
                      {"points", points},
                      {"mape", e.mean},
                      {"median_ape", e.median},
                      {"p90_ape", e.p90}});
      table.add({e.split, e.predictor, std::to_string(points), fixed(e.mean, 1) + "%",
                 fixed(e.median, 1) + "%", fixed(e.p90, 1) + "%"});
    }
  if (session.json())
    print(rows);
  else
    std::cout << table.text();
  return {};
}

}  // namespace sluice::cli
