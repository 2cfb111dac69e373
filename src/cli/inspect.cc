// `sluice inspect MODEL`: what a model takes, returns and computes.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <iostream>
#include <map>

#include "base/words.h"
#include "cli/inspection.h"
#include "cli/session.h"
#include "cli/table.h"
#include "wire/json/operator_graph_json.h"

namespace sluice::cli {
namespace {

using nlohmann::json;

struct InspectFlags {
  std::string model;
  std::vector<std::string> inputs;
  int batch = 1;
  std::string time = kInspectionTime;
};

std::string tensors_text(const json& tensors) {
  if (tensors.is_number()) return std::to_string(tensors.get<int>());
  std::string out;
  for (const json& t : tensors) {
    if (!out.empty()) out += ", ";
    out += t.is_string() ? t.get<std::string>()
                         : t["name"].get<std::string>() + " " + t["datatype"].get<std::string>() +
                               t["shape"].dump();
  }
  return out;
}

// One row a type, the most work first.
std::string operators_text(const OperatorGraph& graph) {
  struct Sum {
    int count = 0;
    double macs = 0, parameters = 0;
  };
  std::map<std::string, Sum> by_type;
  Sum all;
  for (const Operator& o : graph.operators)
    for (Sum* s : {&by_type[o.type], &all}) {
      ++s->count;
      s->macs += static_cast<double>(o.macs);
      s->parameters += static_cast<double>(o.parameters);
    }
  std::vector<std::pair<std::string, Sum>> rows(by_type.begin(), by_type.end());
  std::stable_sort(rows.begin(), rows.end(), [](const auto& a, const auto& b) {
    return a.second.macs != b.second.macs ? a.second.macs > b.second.macs
                                          : a.second.count > b.second.count;
  });
  rows.emplace_back("all", all);
  Table table({"OPERATOR", "COUNT", "GMACS", "PARAMETERS"});
  for (const auto& [type, s] : rows)
    table.add({type, std::to_string(s.count), fixed(s.macs / 1e9, 3),
               fixed(s.parameters / 1e6, 2) + "M"});
  return table.text();
}

Result<void> inspect(const Session& session, const InspectFlags& f) {
  SLUICE_ASSIGN(time, inspection_time(f.time));
  SLUICE_ASSIGN(found, inspect_operators(f.model, f.inputs, f.batch, time));
  if (session.json()) {
    print(found);
    return {};
  }
  std::cout << "inputs   " << tensors_text(found["inputs"]) << "\n"
            << "outputs  " << tensors_text(found["outputs"]) << "\n";
  if (!found.contains("graph")) {
    std::cout << (found.contains("unstated")
                      ? "No operators: " + found["unstated"].get<std::string>() + ".\n"
                      : "With --input NAME:DATATYPE:DIMS for each input, the model is run once and "
                        "its operators are listed.\n");
    return {};
  }
  SLUICE_ASSIGN(graph, wire::operator_graph_from(found["graph"]));
  std::cout << "\n" << operators_text(graph);
  if (!graph.uncounted.empty())
    std::cout << "Work that is not known: " << listed(graph.uncounted) << "\n";
  return {};
}

}  // namespace

void add_inspect(CLI::App& app, Session& session, Outcome& outcome) {
  auto f = std::make_shared<InspectFlags>();
  CLI::App* command = app.add_subcommand(
      "inspect", "list what a model takes, returns and computes; -o json: its graph");
  command
      ->add_option("model", f->model,
                   "MODEL.pt, whose inputs MODEL.json beside it tells; or MODEL.onnx")
      ->required();
  command
      ->add_option("--input", f->inputs,
                   "NAME:DATATYPE:DIMS of each input, such as x:FP32:-1,3,224,224")
      ->allow_extra_args(false);
  command->add_option("--batch", f->batch, "in place of a variable first dimension")
      ->check(CLI::Range(1, 1024))
      ->capture_default_str();
  add_inspection_time(*command, f->time);
  command->callback([=, &session, &outcome] { outcome = inspect(session, *f); });
}

}  // namespace sluice::cli
