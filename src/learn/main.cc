// sluice-learn: fits the predictors to a folder of latencies. `sluice predict train` starts it.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <map>
#include <set>
#include <string_view>
#include <utility>

#include "base/clock.h"
#include "base/replace_file.h"
#include "learn/baselines.h"
#include "learn/builtin.h"
#include "learn/evaluation.h"
#include "learn/rates.h"
#include "learn/weights_json.h"
#include "learn/work_trainer.h"

namespace sluice::learn {
namespace {

struct Flags {
  std::string data, out, device, source;
  int folds = 0;
  double unseen_error = Provenance().unseen_error;
  bool baselines = false, rates = false, time = false;
  TrainingSettings settings;
};

void show(int pass, int passes, double loss) {
  if (pass % 50 == 0 || pass == passes)
    std::fprintf(stderr, "pass %d of %d, loss %.4f\n", pass, passes, loss);
}

// With splits, only their `train` is learned; the rest is for judging.
Chosen to_learn(const trace::LatencyData& data) {
  const auto found = std::find(data.splits.begin(), data.splits.end(), "train");
  if (found == data.splits.end())
    return [](const trace::LatencyModel&, const trace::LatencyPoint&) { return true; };
  const int split = static_cast<int>(found - data.splits.begin());
  return [split](const trace::LatencyModel&, const trace::LatencyPoint& p) {
    return p.split == split;
  };
}

Result<void> train_all(const Flags& f, const trace::LatencyData& data) {
  const Chosen chosen = to_learn(data);
  Learned learned{{.device = f.device,
                   .data = f.source,
                   .models = static_cast<int>(data.models.size()),
                   .points = 0,
                   .seed = f.settings.seed,
                   .unseen_error = f.unseen_error},
                  {}};
  for (const trace::LatencyModel& m : data.models)
    for (const trace::LatencyPoint& p : m.points) learned.from.points += chosen(m, p) ? 1 : 0;
  learned.weights = f.rates ? fit_rates(data, chosen)
                            : train(data, chosen, f.settings, [&](int pass, double loss) {
                                show(pass, f.settings.passes, loss);
                              });
  return replace_file(f.out, to_json(learned).dump(1) + "\n", 0644);
}

nlohmann::json to_json(const Errors& e) {
  return {{"predictor", e.predictor}, {"split", e.split},       {"points", e.points - e.without},
          {"mape", e.mean},           {"median_ape", e.median}, {"p90_ape", e.p90}};
}

// The predictors that learn, by name.
std::map<std::string, ModelPredictor> learned(const Flags& f, const trace::LatencyData& data,
                                              const Chosen& chosen) {
  const auto weights = f.rates ? fit_rates(data, chosen) : train(data, chosen, f.settings);
  std::map<std::string, ModelPredictor> all = {{"work", by_work(data, weights, false)},
                                               {"work+profile", by_work(data, weights, true)}};
  if (!f.baselines) return all;
  const BaselineSettings baseline{.seed = f.settings.seed};
  all["dippm"] = train_dippm(data, chosen, baseline);
  all["rapp"] = train_rapp(data, chosen, baseline);
  return all;
}

// Leaves every fold of whole families out in turn, learns from the others, and judges by what was
// left out.
Result<void> judge_families(const Flags& f, const trace::LatencyData& data) {
  std::set<std::string> names;
  for (const trace::LatencyModel& m : data.models) names.insert(m.family);
  const std::vector<std::string> families(names.begin(), names.end());
  std::map<std::string, std::map<std::string, ModelPredictor>> by_family;
  for (int fold = 0; fold < f.folds; ++fold) {
    std::set<std::string> left_out;
    for (size_t i = static_cast<size_t>(fold); i < families.size();
         i += static_cast<size_t>(f.folds))
      left_out.insert(families[i]);
    const auto predictors =
        learned(f, data, [&](const trace::LatencyModel& m, const trace::LatencyPoint&) {
          return !left_out.contains(m.family);
        });
    for (const std::string& family : left_out) by_family[family] = predictors;
    std::fprintf(stderr, "fold %d of %d\n", fold + 1, f.folds);
  }
  const Chosen all = [&](const trace::LatencyModel& m, const trace::LatencyPoint&) {
    return has_profile(data, m);
  };
  nlohmann::json rows = nlohmann::json::array();
  const auto add = [&](const std::string& name, const ModelPredictor& predictor) {
    rows.push_back(to_json(errors_of(name, "families", data, all, predictor)));
  };
  for (const auto& [name, any] : by_family.begin()->second)
    add(name, [&, name = name](const trace::LatencyModel& m, const std::vector<Configuration>& at) {
      return by_family[m.family][name](m, at);
    });
  add("operators", operators_rule(data));
  add("slower side", slower_side_rule(data));
  return replace_file(f.out, rows.dump(1) + "\n", 0644);
}

// Learns from the split `train`, and judges the predictors that have no built-in weights by the
// others.
Result<void> judge_splits(const Flags& f, const trace::LatencyData& data) {
  nlohmann::json rows = nlohmann::json::array();
  const Chosen chosen = to_learn(data);
  const BaselineSettings baseline{.seed = f.settings.seed};
  const std::map<std::string, ModelPredictor> predictors = {
      {"dippm", train_dippm(data, chosen, baseline)}, {"rapp", train_rapp(data, chosen, baseline)}};
  for (size_t split = 0; split < data.splits.size(); ++split) {
    if (data.splits[split] == "train") continue;
    const Chosen judged = [&](const trace::LatencyModel& m, const trace::LatencyPoint& p) {
      return p.split == static_cast<int>(split) && has_profile(data, m);
    };
    for (const auto& [name, predictor] : predictors)
      rows.push_back(to_json(errors_of(name, data.splits[split], data, judged, predictor)));
  }
  return replace_file(f.out, rows.dump(1) + "\n", 0644);
}

// How long 400 configurations of the model with the most operators take, its estimate included.
Result<void> time_estimates(const Flags& f, const trace::LatencyData& data, const Clock& clock) {
  constexpr int kRuns = 101;
  const auto model =
      std::max_element(data.models.begin(), data.models.end(), [](const auto& a, const auto& b) {
        return a.graph.operators.size() < b.graph.operators.size();
      });
  const predict::WorkWeights weights = builtin_weights("V100")->weights;
  const predict::ShortProfile profile = profile_of(data, *model);
  std::vector<Configuration> all;
  for (int batch = 1; batch <= 8; batch *= 2)
    for (int sm = 100; sm <= 1000; sm += 100)
      for (int quota = 100; quota <= 1000; quota += 100)
        all.push_back({batch, Share{sm}, Share{quota}});
  std::vector<double> ms;
  double sum = 0;
  for (int run = 0; run < kRuns; ++run) {
    const Time begun = clock.now();
    const predict::WorkEstimate estimate(weights, model->graph, &profile);
    for (const double one : estimate.ms(all)) sum += one;
    ms.push_back(seconds(clock.now() - begun) * 1e3);
  }
  std::sort(ms.begin(), ms.end());
  return replace_file(f.out,
                      nlohmann::json{{"median_ms", ms[kRuns / 2]},
                                     {"spread_ms", (ms[kRuns * 3 / 4] - ms[kRuns / 4]) / 2},
                                     {"n", kRuns},
                                     {"model", model->name},
                                     {"sum_ms", sum}}
                              .dump() +
                          "\n",
                      0644);
}

int run(int argc, char** argv) {
  CLI::App app("Fits the predictors of latency to a folder of measured ones");
  Flags f;
  app.add_option("--data", f.data, "the folder")->required();
  app.add_option("--out", f.out, "the weights, or with --folds or --baselines the errors, as JSON")
      ->required();
  app.add_option("--device", f.device, "the type of device that was measured");
  app.add_option("--source", f.source, "where the data comes from");
  app.add_option("--seed", f.settings.seed)->capture_default_str();
  app.add_option("--passes", f.settings.passes)
      ->check(CLI::Range(1, 100'000))
      ->capture_default_str();
  app.add_option("--unseen-error", f.unseen_error,
                 "of models of other families, without a trial, as --folds printed it")
      ->check(CLI::Range(0.001, 10.0))
      ->capture_default_str();
  app.add_option("--folds", f.folds, "leave families out in so many turns, and judge by them")
      ->check(CLI::Range(0, 100));
  app.add_flag("--baselines", f.baselines,
               "judge HAS-GPU's predictors, too: alone by the folder's splits, or with --folds");
  app.add_flag("--rates", f.rates, "fit rates in place of a network: for data of few models");
  app.add_flag("--time", f.time, "how long predictions take");
  CLI11_PARSE(app, argc, argv);
  const auto data = trace::read_latency_data(f.data);
  const auto done = !data.ok()    ? Result<void>(data.error())
                    : f.folds > 0 ? judge_families(f, *data)
                    : f.baselines ? judge_splits(f, *data)
                    : f.time      ? time_estimates(f, *data, SteadyClock())
                                  : train_all(f, *data);
  if (done.ok()) return 0;
  std::fprintf(stderr, "sluice-learn: %s\n", done.error().message.c_str());
  return done.error().kind == ErrorKind::kInvalid ? 2 : 1;
}

}  // namespace
}  // namespace sluice::learn

int main(int argc, char** argv) {
  return sluice::learn::run(argc, argv);
}
