// `sluice init MODEL.pt`: writes the function file and the sidecar for a user's model.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <filesystem>
#include <iostream>
#include <optional>

#include "base/replace_file.h"
#include "cli/inspection.h"
#include "cli/session.h"
#include "control/spec/function_file.h"
#include "wire/json/json.h"
#include "wire/json/model_description.h"

namespace sluice::cli {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

constexpr const char* kFillIn = "FILL-IN";  // no datatype: `apply` names it and the allowed ones

struct InitFlags {
  std::string model, name, time = kInspectionTime;
  std::vector<std::string> inputs, outputs;
};

json placeholder(const std::string& name) {
  return {{"name", name}, {"datatype", kFillIn}, {"shape", {kFillIn}}};
}

// The inputs' and outputs' list, with a placeholder for each that is neither given nor found.
struct Sidecar {
  json tensors;
  std::string
      refused;  // why the model was not run to find its outputs; empty: it was, or not asked
};

Result<Sidecar> sidecar_of(const InitFlags& f) {
  SLUICE_ASSIGN(inputs, tensors_from(f.inputs, "--input"));
  SLUICE_ASSIGN(outputs, tensors_from(f.outputs, "--output"));
  SLUICE_ASSIGN(time, inspection_time(f.time));
  SLUICE_ASSIGN(found, inspect_model(f.model, inputs, 0, time));
  const json& names = found["inputs"];
  if (inputs.empty())
    for (const json& name : names) inputs.push_back(placeholder(name));
  const json optional = found.value("optional", json::array());
  if (inputs.size() < names.size() || inputs.size() > names.size() + optional.size())
    return Error{ErrorKind::kInvalid,
                 "--input: stands " + std::to_string(inputs.size()) +
                     " times; the model's forward() takes " + std::to_string(names.size()) + ": " +
                     names.dump() + (optional.empty() ? "" : ", and may take " + optional.dump())};
  if (outputs.empty() && found["outputs"].is_array()) outputs = found["outputs"];
  const size_t count = found["outputs"].is_number() ? found["outputs"].get<size_t>() : 1;
  if (outputs.empty()) outputs = json::array_t(count, placeholder("output"));
  for (size_t i = 0; outputs.size() > 1 && i < outputs.size(); ++i)
    if (outputs[i]["name"] == "output") outputs[i]["name"] = "output" + std::to_string(i);
  return Sidecar{{{"inputs", inputs}, {"outputs", outputs}},
                 f.outputs.empty() ? found.value("refused", "") : ""};
}

std::string sidecar_text(const json& sidecar) {
  std::string out = "{";
  for (const char* key : {"inputs", "outputs"}) {
    out += std::string(out.size() > 1 ? ",\n " : "") + "\"" + key + "\": [";
    std::string separator;
    for (const json& tensor : sidecar[key]) {
      out += separator + "\n  " + tensor.dump();
      separator = ",";
    }
    out += "\n ]";
  }
  return out + "}\n";
}

// "My_Model.v2" → "my-model-v2".
std::string label_of(std::string name) {
  for (char& c : name)
    c = std::isalnum(static_cast<unsigned char>(c)) != 0
            ? static_cast<char>(std::tolower(static_cast<unsigned char>(c)))
            : '-';
  const size_t first = name.find_first_not_of('-');
  name = first == name.npos ? "model" : name.substr(first, 63);
  name.erase(name.find_last_not_of('-') + 1);
  return name;
}

std::string function_text(const std::string& name, const fs::path& model) {
  return "apiVersion: sluice.dev/v1alpha1\n"
         "kind: InferenceFunction\n"
         "metadata:\n"
         "  name: " +
         name +
         "\n"
         "spec:\n"
         "  model:\n"
         "    path: " +
         json(model.filename().string()).dump() + "   # " +
         fs::path(model).replace_extension(".json").filename().string() +
         " beside it has its inputs and outputs\n"
         "  slo:\n"
         "    latency: 1s         # the objective, for 95 % of the requests\n"
         "  batcher:\n"
         "    maxBatchSize: 1     # more, where requests may run together\n";
}

// Returns whether init wrote the file and left placeholders in it.
bool is_unfinished(const std::string& path) {
  const auto text = read_file(path);
  return text.ok() && text->find(kFillIn) != std::string::npos;
}

Result<void> init(const Session& session, const InitFlags& f) {
  const fs::path model(f.model);
  const std::string sidecar = fs::path(model).replace_extension(".json");
  const std::string function = fs::path(model).replace_extension(".yaml");
  const bool again = is_unfinished(sidecar);  // keep the function file as it is
  for (const std::string& path : {sidecar, function})
    if (fs::exists(path) && !again)
      return Error{ErrorKind::kConflict, path + ": is there; init overwrites nothing"};
  if (!f.name.empty())
    if (const auto checked = control::check_name(f.name); !checked.ok())
      return within("--name", checked.error());
  SLUICE_ASSIGN(made, sidecar_of(f));
  const json& described = made.tensors;
  const std::string name = f.name.empty() ? label_of(model.stem().string()) : f.name;
  SLUICE_TRY(replace_file(sidecar, sidecar_text(described), 0644));
  if (!again || !fs::exists(function))
    SLUICE_TRY(replace_file(function, function_text(name, model), 0644));
  const bool whole = described.dump().find(kFillIn) == std::string::npos;
  if (session.json()) {
    print({{"function", function}, {"sidecar", sidecar}, {"complete", whole}});
    return {};
  }
  std::cout << "wrote " << function << " and " << sidecar << "\n";
  if (!made.refused.empty())
    std::cout << "its outputs are unknown: it ran with no inputs made up for it: " << made.refused
              << "\n";
  if (whole)
    std::cout << "next: sluice apply -f " << function << "\n";
  else
    std::cout << "next: replace " << kFillIn << " in " << sidecar
              << " by datatypes (FP32, INT64, …) and dimensions (-1: variable), or run this again "
                 "with --input NAME:DATATYPE:DIMS for each input\n";
  return {};
}

}  // namespace

void add_init(CLI::App& app, Session& session, Outcome& outcome) {
  auto f = std::make_shared<InitFlags>();
  CLI::App* command =
      app.add_subcommand("init", "write the function file and the sidecar of a TorchScript model");
  command->add_option("model", f->model, "MODEL.pt, as torch.jit.save wrote it")->required();
  command
      ->add_option("--input", f->inputs,
                   "NAME:DATATYPE:DIMS of each input, such as x:FP32:-1,3,224,224; with them the "
                   "model is run once to find its outputs")
      ->allow_extra_args(false);
  command->add_option("--output", f->outputs, "the same of each output")->allow_extra_args(false);
  command->add_option("--name", f->name, "the function's name; default: made from the file's");
  add_inspection_time(*command, f->time);
  command->callback([=, &session, &outcome] { outcome = init(session, *f); });
}

}  // namespace sluice::cli
