#include "cli/inspection.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <chrono>
#include <filesystem>
#include <optional>

#include "base/clock.h"
#include "base/fd.h"
#include "base/system_error.h"
#include "cli/session.h"
#include "trace/onnx_graph.h"
#include "wire/json.h"
#include "wire/model_description.h"
#include "wire/operator_graph_json.h"

namespace sluice::cli {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

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

constexpr Nanos kPatience = Seconds(120);  // a large model is read from a slow disk

// Returns a program's output. One that takes longer than kPatience is killed.
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
  const SteadyClock clock;
  const Time end = clock.now() + kPatience;
  std::string out;
  char part[4096];
  bool overdue = false;
  for (;;) {
    pollfd ready{read_end.get(), POLLIN, 0};
    const auto left = std::chrono::ceil<Millis>(std::max(end - clock.now(), Nanos(0)));
    overdue = ::poll(&ready, 1, static_cast<int>(left.count())) == 0;
    const ssize_t n = overdue ? 0 : ::read(read_end.get(), part, sizeof part);
    if (n <= 0) break;
    out.append(part, static_cast<size_t>(n));
  }
  if (overdue) ::kill(pid, SIGKILL);
  int status = 0;
  ::waitpid(pid, &status, 0);
  if (overdue)
    return Error{ErrorKind::kTimeout,
                 words[0] + ": took longer than " + std::to_string(kPatience / Seconds(1)) + " s"};
  return out;
}

std::string runtime_program() {
  return fs::read_symlink("/proc/self/exe").parent_path() / "sluice-runtime";
}

// Those that flags state, else those of the sidecar; none if there is none.
Result<json> inputs_of(const std::string& model, const std::vector<std::string>& flags) {
  if (!flags.empty()) return tensors_from(flags, "--input");
  const std::string sidecar = fs::path(model).replace_extension(".json");
  if (!fs::exists(sidecar)) return json::array();
  SLUICE_ASSIGN(text, read_file(sidecar));
  const auto parsed = wire::parse_json(text);
  if (!parsed.ok()) return within(sidecar, parsed.error());
  const auto described = wire::model_description_from(*parsed);
  if (!described.ok()) return within(sidecar, described.error());
  json inputs = json::array();
  for (const TensorSpec& t : described->inputs) inputs.push_back(wire::to_json(t));
  return inputs;
}

// Returns which variable dimension the work depends on, beside the batch; empty: none.
std::string unstated_size(const json& inputs) {
  for (const json& t : inputs)
    for (size_t d = 1; d < t["shape"].size(); ++d) {
      if (t["shape"][d] >= 0) continue;
      std::string example;
      for (size_t i = 0; i < t["shape"].size(); ++i)
        example +=
            (i > 0 ? "," : ":") +
            (i > 0 && t["shape"][i] < 0 ? "128" : std::to_string(t["shape"][i].get<int64_t>()));
      const std::string name = t["name"];
      return "dimension " + std::to_string(d + 1) + " of input '" + name +
             "' is variable, and the work depends on it; state it, as in --input " + name + ":" +
             t["datatype"].get<std::string>() + example;
    }
  return "";
}

// Larger models keep their weights in files beside them.
Result<json> inspect_onnx(const std::string& path, const std::vector<std::string>& flags,
                          int batch) {
  SLUICE_ASSIGN(text, read_file(path, size_t{2} << 30));
  std::vector<TensorSpec> stated;
  for (const std::string& flag : flags) {
    const auto t = tensor_from(flag);
    if (!t.ok()) return within("--input", t.error());
    stated.push_back(*t);
  }
  const auto found = trace::onnx_model_from(text, batch, stated);
  if (!found.ok()) return within(path, found.error());
  json out{{"inputs", json::array()}, {"outputs", json::array()}};
  for (const TensorSpec& t : found->inputs) out["inputs"].push_back(wire::to_json(t));
  for (const TensorSpec& t : found->outputs) out["outputs"].push_back(wire::to_json(t));
  if (const std::string unstated = unstated_size(out["inputs"]); !unstated.empty())
    out["unstated"] = unstated;
  else
    out["graph"] = wire::to_json(found->graph);
  return out;
}

}  // namespace

Result<json> tensors_from(const std::vector<std::string>& flags, const char* option) {
  json out = json::array();
  for (const std::string& flag : flags) {
    const auto t = tensor_from(flag);
    if (!t.ok()) return within(option, t.error());
    out.push_back(wire::to_json(*t));
  }
  return out;
}

bool can_inspect() {
  return ::access(runtime_program().c_str(), X_OK) == 0;
}

Result<json> inspect_model(const std::string& model, const json& inputs, int batch) {
  const std::string runtime = runtime_program();
  const std::string unstated = batch > 0 ? unstated_size(inputs) : "";
  if (!unstated.empty()) batch = 0;
  SLUICE_ASSIGN(said, output_of({runtime, "inspect", "--model", model, "--inputs", inputs.dump(),
                                 "--graph", std::to_string(batch)}));
  auto answer = wire::parse_json(said);
  if (!answer.ok() || !answer->is_object())
    return Error{ErrorKind::kInternal, runtime + ": ended without an answer"};
  if (answer->contains("error"))
    return Error{ErrorKind::kInvalid, (*answer)["error"].get<std::string>()};
  if (!unstated.empty()) (*answer)["unstated"] = unstated;
  return *answer;
}

Result<json> inspect_operators(const std::string& model, const std::vector<std::string>& flags,
                               int batch) {
  if (model.ends_with(".onnx")) return inspect_onnx(model, flags, batch);
  SLUICE_ASSIGN(inputs, inputs_of(model, flags));
  SLUICE_ASSIGN(found, inspect_model(model, inputs, inputs.empty() ? 0 : batch));
  if (!inputs.empty()) found["inputs"] = inputs;
  return found;
}

}  // namespace sluice::cli
