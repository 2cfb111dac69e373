// `sluice predict`: how long a model would take on a slice, without running it there.
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <cstring>
#include <filesystem>
#include <iostream>

#include "base/system_error.h"
#include "base/words.h"
#include "cli/inspection.h"
#include "cli/predict_eval.h"
#include "cli/predict_map.h"
#include "cli/predict_weights.h"
#include "cli/session.h"
#include "cli/table.h"
#include "predict/work_model.h"
#include "wire/json/json.h"
#include "wire/json/operator_graph_json.h"

namespace sluice::cli {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

constexpr Share percent_of(int percent) {
  return Share{percent * 10};
}

struct PredictFlags {
  std::string model, weights, device = "V100", picture;
  std::vector<std::string> inputs;
  int batch = 1, sm = 100, quota = 100;
  bool all = false;
  std::string time = kInspectionTime;
};

struct TrainFlags {
  std::string data, out, device, source;
  uint64_t seed = 1;
  int passes = 600;
  double unseen_error = learn::Provenance().unseen_error;
  bool rates = false;
};

Result<predict::WorkEstimate> estimate_of(const PredictFlags& f, const learn::Learned& learned) {
  SLUICE_ASSIGN(time, inspection_time(f.time));
  SLUICE_ASSIGN(found, inspect_operators(f.model, f.inputs, 1, time));
  if (!found.contains("graph"))
    return Error{ErrorKind::kInvalid,
                 f.model + ": " +
                     found.value("unstated",
                                 "its inputs are unknown; name them by --input, or in "
                                 "the sidecar that `sluice init` writes")};
  SLUICE_ASSIGN(graph, wire::operator_graph_from(found["graph"]));
  if (!graph.uncounted.empty())
    std::cerr << "sluice: without " << listed(graph.uncounted)
              << ", whose work is not known: it takes longer\n";
  return predict::WorkEstimate(learned.weights, graph);
}

std::vector<Configuration> grid() {
  std::vector<Configuration> all;
  for (const int batch : {1, 2, 4, 8, 16})
    for (int sm = 10; sm <= 100; sm += 10)
      for (int quota = 20; quota <= 100; quota += 20)
        all.push_back({batch, percent_of(sm), percent_of(quota)});
  return all;
}

json to_json(const Configuration& c, double ms) {
  return {{"batch", c.batch},
          {"sm_pct", c.sm.permille / 10.0},
          {"quota_pct", c.quota.permille / 10.0},
          {"latency_ms", ms}};
}

// One row a batch and sm, one column a quota.
std::string grid_text(const std::vector<Configuration>& all, const std::vector<double>& ms) {
  Table table({"BATCH", "SM", "20%", "40%", "60%", "80%", "100%"});
  for (size_t i = 0; i < all.size(); i += 5) {
    std::vector<std::string> row = {std::to_string(all[i].batch), percent(all[i].sm.permille)};
    for (size_t q = 0; q < 5; ++q) row.push_back(fixed(ms[i + q], 1));
    table.add(std::move(row));
  }
  return table.text();
}

Result<void> predict_model(const Session& session, const PredictFlags& f) {
  SLUICE_ASSIGN(learned, weights_for(f.weights, f.device));
  SLUICE_ASSIGN(estimate, estimate_of(f, learned));
  const std::vector<Configuration> all =
      f.all ? grid() : std::vector<Configuration>{{f.batch, percent_of(f.sm), percent_of(f.quota)}};
  const std::vector<double> ms = estimate.ms(all);
  if (!f.picture.empty()) {
    SLUICE_TRY(write_heat_map(
        f.picture, fs::path(f.model).stem().string() + " on " + learned.from.device, estimate));
  }
  if (session.json()) {
    json rows = json::array();
    for (size_t i = 0; i < all.size(); ++i) rows.push_back(to_json(all[i], ms[i]));
    print(f.all ? rows : rows[0]);
  } else if (f.all) {
    std::cout << "milliseconds of a batch on " << learned.from.device << ", by quota\n"
              << grid_text(all, ms);
  } else {
    std::cout << fixed(ms[0], 1) << " ms for a batch of " << f.batch << " on "
              << learned.from.device << " with " << f.sm << "% sm and " << f.quota << "% quota\n"
              << "device " << fixed(estimate.device_ms(f.batch, all[0].sm), 1) << " ms, host "
              << fixed(estimate.host_ms(all[0].quota), 1) << " ms: the slower one counts\n";
  }
  return {};
}

// Becomes sluice-learn, which has libtorch.
Result<void> train(const TrainFlags& f) {
  const std::string program = fs::read_symlink("/proc/self/exe").parent_path() / "sluice-learn";
  if (!fs::exists(program))
    return Error{
        ErrorKind::kUnavailable,
        program + ": is not built; `cmake --build --preset release --target sluice-learn` does it"};
  std::vector<std::string> words = {program,
                                    "--data",
                                    f.data,
                                    "--out",
                                    f.out,
                                    "--device",
                                    f.device,
                                    "--source",
                                    f.source,
                                    "--seed",
                                    std::to_string(f.seed),
                                    "--passes",
                                    std::to_string(f.passes),
                                    "--unseen-error",
                                    fixed(f.unseen_error, 3)};
  if (f.rates) words.emplace_back("--rates");
  std::vector<char*> arguments;
  for (std::string& word : words) arguments.push_back(word.data());
  arguments.push_back(nullptr);
  ::execv(program.c_str(), arguments.data());
  return system_error(program);
}

void add_train(CLI::App& predict, Outcome& outcome) {
  auto f = std::make_shared<TrainFlags>();
  CLI::App* command = predict.add_subcommand(
      "train", "learn weights from a folder of measured latencies (docs/formats/latency-data.md)");
  command->add_option("--data", f->data, "the folder")->required();
  command->add_option("--out", f->out, "the weights, as JSON")->required();
  command->add_option("--device", f->device, "the type of device that was measured")->required();
  command->add_option("--source", f->source, "where the data comes from, for people");
  command->add_option("--seed", f->seed, "the same one gives the same weights")
      ->capture_default_str();
  command->add_flag("--rates", f->rates, "fit rates in place of a network: for data of few models");
  command
      ->add_option("--unseen-error", f->unseen_error,
                   "of a model of another family, without a trial: decisions keep so much apart")
      ->check(CLI::Range(0.001, 10.0))
      ->capture_default_str();
  command->add_option("--passes", f->passes, "over the models; more take longer and fit closer")
      ->check(CLI::Range(1, 100'000))
      ->capture_default_str();
  command->callback([=, &outcome] { outcome = train(*f); });
}

void add_eval(CLI::App& predict, Session& session, Outcome& outcome) {
  auto f = std::make_shared<PredictEval>();
  CLI::App* command = predict.add_subcommand(
      "eval", "compare predictions with a folder of measured latencies, beside simple rules");
  command->add_option("--data", f->data, "the folder (docs/formats/latency-data.md)")->required();
  command->add_option("--weights", f->weights, "a file; default: the built-in ones of --device");
  command->add_option("--device", f->device)->capture_default_str();
  command->add_option("--split", f->split, "of the folder's; default: all but `train`");
  command->callback([=, &session, &outcome] { outcome = evaluate(session, *f); });
}

}  // namespace

void add_predict(CLI::App& app, Session& session, Outcome& outcome) {
  auto f = std::make_shared<PredictFlags>();
  CLI::App* command =
      app.add_subcommand("predict", "how long a model would take on a slice that it never ran on");
  command->require_subcommand(0, 1);
  command->add_option("model", f->model,
                      "MODEL.pt, whose inputs MODEL.json beside it tells; or MODEL.onnx");
  command
      ->add_option("--input", f->inputs,
                   "NAME:DATATYPE:DIMS of each input, such as x:FP32:-1,3,224,224")
      ->allow_extra_args(false);
  command->add_option("--device", f->device, "type of device")->capture_default_str();
  command->add_option("--weights", f->weights, "a file; default: the built-in ones of --device");
  command->add_option("--batch", f->batch)->check(CLI::Range(1, 1024))->capture_default_str();
  command->add_option("--sm", f->sm, "percent")->check(CLI::Range(1, 100))->capture_default_str();
  command->add_option("--quota", f->quota, "percent")
      ->check(CLI::Range(1, 100))
      ->capture_default_str();
  command->add_flag("--all", f->all, "a grid of configurations");
  command->add_option("--picture", f->picture, "FILE.svg: latency over sm and quota");
  add_inspection_time(*command, f->time);
  add_train(*command, outcome);
  add_eval(*command, session, outcome);
  command->callback([=, &session, &outcome] {
    if (!command->get_subcommands().empty()) return;
    if (f->model.empty())
      outcome = Error{ErrorKind::kInvalid, "predict: name a model, or `train` or `eval`"};
    else
      outcome = predict_model(session, *f);
  });
}

}  // namespace sluice::cli
