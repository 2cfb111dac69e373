#include "cli/inspection.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cerrno>
#include <charconv>
#include <chrono>
#include <cstring>
#include <filesystem>
#include <optional>

#include "base/fd.h"
#include "base/printable.h"
#include "base/regular_file.h"
#include "base/system_error.h"
#include "cli/session.h"
#include "control/local/model_archive.h"
#include "model/quantity.h"
#include "trace/onnx_graph.h"
#include "wire/json/json.h"
#include "wire/json/model_description.h"
#include "wire/json/operator_graph_json.h"

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

constexpr size_t kMostAnswer = size_t{256} << 20;  // of a graph with a million operators

struct Said {
  std::string answer;
  int status = 0;
};

// Where the program finds its descriptors. Ours lie elsewhere, so that no dup2() hits another one.
constexpr int kModelFd = 3, kAnswerFd = 4, kOurs = 10;

// Starts sluice-runtime with the model and an end for its answer.
Result<pid_t> spawn(std::vector<std::string> words, const Fd& model, const Fd& answer) {
  const Fd from(::fcntl(model.get(), F_DUPFD_CLOEXEC, kOurs));
  const Fd to(::fcntl(answer.get(), F_DUPFD_CLOEXEC, kOurs));
  if (!from.valid() || !to.valid()) return system_error("descriptors");
  for (const auto& [option, fd] : {std::pair("--model-fd", kModelFd), {"--answer-fd", kAnswerFd}})
    words.insert(words.end(), {option, std::to_string(fd)});
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
  posix_spawn_file_actions_adddup2(&actions, from.get(), kModelFd);
  posix_spawn_file_actions_adddup2(&actions, to.get(), kAnswerFd);
  std::vector<char*> arguments;
  for (std::string& word : words) arguments.push_back(word.data());
  arguments.push_back(nullptr);
  pid_t pid = 0;
  const int fault =
      posix_spawn(&pid, words[0].c_str(), &actions, nullptr, arguments.data(), environ);
  posix_spawn_file_actions_destroy(&actions);
  if (fault != 0) return system_error(words[0], fault);
  return pid;
}

// Returns what the program answers and how it ended. One that takes longer is killed.
Result<Said> run(const std::vector<std::string>& words, const Fd& model, Nanos patience) {
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0) return system_error("pipe");
  const Fd read_end(ends[0]);
  Fd write_end(ends[1]);
  SLUICE_ASSIGN(pid, spawn(words, model, write_end));
  write_end.reset();
  const SteadyClock clock;
  const Time end = clock.now() + patience;
  Said said;
  char part[4096];
  bool overdue = false;
  while (said.answer.size() < kMostAnswer) {
    pollfd ready{read_end.get(), POLLIN, 0};
    const auto left = std::chrono::ceil<Millis>(std::max(end - clock.now(), Nanos(0)));
    overdue = ::poll(&ready, 1, static_cast<int>(left.count())) == 0;
    const ssize_t n = overdue ? 0 : ::read(read_end.get(), part, sizeof part);
    if (n <= 0) break;
    said.answer.append(part, static_cast<size_t>(n));
  }
  ::kill(pid, SIGKILL);  // it has answered, or never will
  ::waitpid(pid, &said.status, 0);
  if (overdue)
    return Error{ErrorKind::kTimeout, "takes longer than " + std::to_string(patience / Seconds(1)) +
                                          " s, the limit for reading it and running it once"};
  return said;
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
      if (t["shape"][d] >= 0 || t.contains("sizes")) continue;
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

void add_inspection_time(CLI::App& command, std::string& time) {
  command.add_option("--timeout", time, "Longest time for reading the model and running it once")
      ->capture_default_str();
}

Result<Nanos> inspection_time(const std::string& time) {
  const auto parsed = parse_duration(time);
  if (!parsed.ok()) return within("--timeout", parsed.error());
  if (*parsed < Seconds(1))
    return Error{ErrorKind::kInvalid, "--timeout: " + time + ": at least 1s"};
  return *parsed;
}

bool can_inspect() {
  return ::access(runtime_program().c_str(), X_OK) == 0;
}

Result<json> inspect_model(const std::string& model, const json& inputs, int batch,
                           Nanos patience) {
  if (::access(model.c_str(), F_OK) != 0 && errno == ENOENT)
    return Error{ErrorKind::kNotFound, model + ": there is no such file"};
  SLUICE_TRY(control::check_model_archive(model));
  SLUICE_ASSIGN(file, RegularFile::open(model));
  const Fd opened(::fcntl(file.fd(), F_DUPFD_CLOEXEC, kOurs));
  const std::string runtime = runtime_program();
  const std::string unstated = batch > 0 ? unstated_size(inputs) : "";
  if (!unstated.empty()) batch = 0;
  const auto said = run({runtime, "inspect", "--model", model, "--inputs", inputs.dump(), "--graph",
                         std::to_string(batch)},
                        opened, patience);
  if (!said.ok()) return within(model, said.error());
  const auto answer = wire::parse_json(said->answer);
  if (answer.ok() && answer->is_object()) {
    json found = *answer;
    for (const char* text : {"error", "refused"})
      if (found.contains(text)) found[text] = printable(found[text].get<std::string>());
    if (!unstated.empty()) found["unstated"] = unstated;
    if (!found.contains("error")) return found;
    return Error{ErrorKind::kInvalid, found["error"].get<std::string>()};
  }
  return Error{
      ErrorKind::kInvalid,
      model + ": reading it ended without an answer" +
          (WIFSIGNALED(said->status) ? std::string(": ") + ::strsignal(WTERMSIG(said->status))
                                     : "")};
}

Result<json> inspect_operators(const std::string& model, const std::vector<std::string>& flags,
                               int batch, Nanos patience) {
  if (model.ends_with(".onnx")) return inspect_onnx(model, flags, batch);
  SLUICE_ASSIGN(inputs, inputs_of(model, flags));
  SLUICE_ASSIGN(found, inspect_model(model, inputs, inputs.empty() ? 0 : batch, patience));
  if (!inputs.empty()) found["inputs"] = inputs;
  return found;
}

}  // namespace sluice::cli
