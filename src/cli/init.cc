// `sluice init MODEL.pt`: writes the function file and the sidecar for a user's model.
#include <fcntl.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <charconv>
#include <filesystem>
#include <iostream>
#include <optional>

#include "base/fd.h"
#include "base/replace_file.h"
#include "base/system_error.h"
#include "cli/session.h"
#include "control/function_file.h"
#include "wire/json.h"
#include "wire/model_description.h"

namespace sluice::cli {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

constexpr const char* kFillIn = "FILL-IN";  // no datatype: `apply` names it and the allowed ones

struct InitFlags {
  std::string model, name;
  std::vector<std::string> inputs, outputs;
};

// NAME:DATATYPE:DIMS, such as "input:FP32:-1,3,224,224".
Result<TensorSpec> tensor_from(const std::string& text) {
  const Error wrong{ErrorKind::kInvalid,
                    "\"" + text + "\" is not NAME:DATATYPE:DIMS, such as input:FP32:-1,3,224,224"};
  const size_t dims = text.rfind(':');
  const size_t type = dims == 0 || dims == text.npos ? text.npos : text.rfind(':', dims - 1);
  if (type == text.npos) return wrong;
  TensorSpec t{.name = text.substr(0, type), .datatype = text.substr(type + 1, dims - type - 1)};
  for (const char *at = text.data() + dims + 1, *end = text.data() + text.size(); at < end;) {
    const auto [next, fault] = std::from_chars(at, end, t.shape.emplace_back());
    if (fault != std::errc() || (next != end && *next != ',')) return wrong;
    at = next == end ? end : next + 1;
  }
  for (const auto& [field, why] : wire::tensor_problems(t, wire::kTorchscript))
    return Error{ErrorKind::kInvalid, text + ": " + field + ": " + why};
  return t;
}

Result<json> tensors_from(const std::vector<std::string>& flags, const char* option) {
  json out = json::array();
  for (const std::string& flag : flags) {
    const auto t = tensor_from(flag);
    if (!t.ok()) return within(option, t.error());
    out.push_back(wire::to_json(*t));
  }
  return out;
}

// Returns a program's output until it ends.
Result<std::string> output_of(const std::vector<std::string>& words) {
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0) return system_error("pipe");
  const Fd read_end(ends[0]);
  Fd write_end(ends[1]);
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, write_end.get(), STDOUT_FILENO);
  std::vector<char*> arguments;
  for (const std::string& word : words) arguments.push_back(const_cast<char*>(word.c_str()));
  arguments.push_back(nullptr);
  pid_t pid = 0;
  const int fault =
      posix_spawn(&pid, words[0].c_str(), &actions, nullptr, arguments.data(), environ);
  posix_spawn_file_actions_destroy(&actions);
  if (fault != 0) return system_error(words[0], fault);
  write_end.reset();
  std::string out;
  char part[4096];
  for (ssize_t n; (n = ::read(read_end.get(), part, sizeof part)) > 0;)
    out.append(part, static_cast<size_t>(n));
  int status = 0;
  ::waitpid(pid, &status, 0);
  return out;
}

// Returns what the model's forward() takes, as the runtime finds it: {"inputs": [NAME…], "outputs":
// N, or the result of a run with these inputs}.
Result<json> inspect(const std::string& model, const json& inputs) {
  const std::string runtime = fs::read_symlink("/proc/self/exe").parent_path() / "sluice-runtime";
  SLUICE_ASSIGN(said, output_of({runtime, "inspect", "--model", model, "--inputs", inputs.dump()}));
  const auto answer = wire::parse_json(said);
  if (!answer.ok() || !answer->is_object())
    return Error{ErrorKind::kInternal, runtime + ": ended without an answer"};
  if (answer->contains("error"))
    return Error{ErrorKind::kInvalid, (*answer)["error"].get<std::string>()};
  return *answer;
}

json placeholder(const std::string& name) {
  return {{"name", name}, {"datatype", kFillIn}, {"shape", {kFillIn}}};
}

// Returns the inputs' and outputs' list, with a placeholder for each that is neither given nor
// found.
Result<json> sidecar_of(const InitFlags& f) {
  SLUICE_ASSIGN(inputs, tensors_from(f.inputs, "--input"));
  SLUICE_ASSIGN(outputs, tensors_from(f.outputs, "--output"));
  SLUICE_ASSIGN(found, inspect(f.model, inputs));
  const json& names = found["inputs"];
  if (inputs.empty())
    for (const json& name : names) inputs.push_back(placeholder(name));
  if (inputs.size() != names.size())
    return Error{ErrorKind::kInvalid, "--input: stands " + std::to_string(inputs.size()) +
                                          " times; the model's forward() takes " +
                                          std::to_string(names.size()) + ": " + names.dump()};
  if (outputs.empty() && found["outputs"].is_array()) outputs = found["outputs"];
  const size_t count = found["outputs"].is_number() ? found["outputs"].get<size_t>() : 1;
  if (outputs.empty()) outputs = json::array_t(count, placeholder("output"));
  for (size_t i = 0; outputs.size() > 1 && i < outputs.size(); ++i)
    if (outputs[i]["name"] == "output") outputs[i]["name"] = "output" + std::to_string(i);
  return json{{"inputs", inputs}, {"outputs", outputs}};
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
  SLUICE_ASSIGN(described, sidecar_of(f));
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
  command->callback([=, &session, &outcome] { outcome = init(session, *f); });
}

}  // namespace sluice::cli
