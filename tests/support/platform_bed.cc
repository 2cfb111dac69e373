#include "tests/support/platform_bed.h"

#include <signal.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <functional>
#include <sstream>

#include "base/check.h"
#include "base/lock_file.h"
#include "tests/support/archive.h"
#include "tests/support/gateway_bed.h"

namespace sluice::bench {
namespace {

using nlohmann::json;
using wire::http::verb;

constexpr Nanos kPatience = Seconds(60);

std::string text_of(const std::string& path) {
  return (std::ostringstream() << std::ifstream(path).rdbuf()).str();
}

bool until(const std::function<bool()>& holds) {
  const SteadyClock clock;
  for (const Time end = clock.now() + kPatience; clock.now() < end; ::usleep(10'000))
    if (holds()) return true;
  return false;
}

uint16_t port_in(const std::string& file) {
  const std::string text = text_of(file);
  const auto at = wire::parse_endpoint(text.substr(0, text.find('\n')));
  return at.ok() ? at->port : uint16_t{0};
}

// A platform's remaining processes become children of this process once their own parent has ended.
void adopt_orphans() {
  ::prctl(PR_SET_CHILD_SUBREAPER, 1);
}

}  // namespace

std::vector<pid_t> children_of(pid_t pid) {
  const std::string name = std::to_string(pid);
  std::ifstream in("/proc/" + name + "/task/" + name + "/children");
  std::vector<pid_t> all;
  for (pid_t child; in >> child;) all.push_back(child);
  return all;
}

PlatformBed::PlatformBed(PlatformSettings settings) : settings_(std::move(settings)) {
  adopt_orphans();
  char folder[] = "/tmp/sluice-platform-XXXXXX";
  SLUICE_CHECK(::mkdtemp(folder) != nullptr, "no folder under /tmp");
  SLUICE_CHECK(::chmod(folder, 0711) == 0, "a folder that workers cannot enter");
  folder_ = folder;
  data_ = folder_ + "/data";
  start(0, 0);
}

void PlatformBed::start(uint16_t gateway_port, uint16_t api_port) {
  const auto at = [](uint16_t port) { return "127.0.0.1:" + std::to_string(port); };
  supervisor_ = start_program(
      {settings_.sluice, "--data", data_, "up", "--policy", "fixed", "--listen", at(gateway_port),
       "--api", at(api_port), "--runtime", settings_.runtime, "--devices", "4", "--nvml", "none"},
      folder_ + "/up.log");
}

Result<void> PlatformBed::restart() {
  const uint16_t gateway = gateway_port(), api = api_port();
  const pid_t down =
      start_program({settings_.sluice, "--data", data_, "down", "--keep"}, folder_ + "/down.log");
  int status = 0;
  ::waitpid(down, &status, 0);
  if (status != 0) return Error{ErrorKind::kInternal, text_of(folder_ + "/down.log")};
  end_program(std::exchange(supervisor_, 0));  // it has ended already
  start(gateway, api);
  return ready();
}

PlatformBed::~PlatformBed() {
  (void)end();
  std::filesystem::remove_all(folder_);
}

Result<json> PlatformBed::get(const std::string& target) {
  return wire::HttpClient({.path = data_ + "/run/api.sock"}, Seconds(5)).json(verb::get, target);
}

Result<void> PlatformBed::apply(const std::string& file) {
  wire::HttpClient api({.path = data_ + "/run/api.sock"}, kPatience);
  SLUICE_ASSIGN(answer, api.call(verb::post, "/v1/functions?file=siege", file, "application/yaml"));
  if (answer.result_int() != 200) return Error{ErrorKind::kInternal, answer.body()};
  return {};
}

Result<void> PlatformBed::call(verb method, const std::string& target) {
  wire::HttpClient api({.path = data_ + "/run/api.sock"}, kPatience);
  SLUICE_ASSIGN(answer, api.call(method, target, "", "application/json"));
  if (answer.result_int() / 100 != 2) return Error{ErrorKind::kInternal, answer.body()};
  return {};
}

Result<void> PlatformBed::ready() {
  if (!settings_.model.empty() && !std::filesystem::exists(settings_.model))
    return Error{ErrorKind::kNotFound, settings_.model + ": there is no such model"};
  const bool up = until([&] {
    const auto status = get("/v1/status");
    return status.ok() && status->value("node", false) && status->value("gateway", false);
  });
  if (up) return {};
  return Error{ErrorKind::kTimeout,
               "the platform does not come up: " + text_of(folder_ + "/up.log")};
}

std::string PlatformBed::model_of(const std::string& name) {
  std::string path = folder_ + "/" + name + ".pt";
  if (std::filesystem::exists(path)) return path;
  if (!settings_.model.empty()) {
    std::filesystem::copy(settings_.model, path);
    const std::string from = std::filesystem::path(settings_.model).replace_extension(".json");
    std::filesystem::copy(from, folder_ + "/" + name + ".json");
    return path;
  }
  std::ofstream(path) << control::archive_of("\nslow " + std::to_string(settings_.fake_load_ms) +
                                             "\n");
  const json tensor{{"name", "input"}, {"datatype", "FP32"}, {"shape", {-1, 64}}};
  std::ofstream(folder_ + "/" + name + ".json")
      << json{{"platform", "pytorch_torchscript"}, {"inputs", {tensor}}, {"outputs", {tensor}}};
  return path;
}

Result<void> PlatformBed::deploy(const std::string& name, int replicas) {
  const std::string file =
      "apiVersion: sluice.dev/v1alpha1\nkind: InferenceFunction\nmetadata: {name: " + name +
      "}\nspec:\n  model: {path: \"" + model_of(name) +
      "\"}\n  policy: fixed\n  minReplicas: " + std::to_string(replicas) +
      "\n  slice: {quota: {request: 20%}}\n";
  SLUICE_TRY(apply(file));
  const bool there = until([&] {
    const auto f = get("/v1/functions/default/" + name);
    return f.ok() && (*f)["replicas"]["ready"] == replicas;
  });
  if (there) return {};
  return Error{ErrorKind::kTimeout, name + " does not get its instances"};
}

uint16_t PlatformBed::gateway_port() const {
  return port_in(data_ + "/run/gateway.address");
}
uint16_t PlatformBed::api_port() const {
  return port_in(data_ + "/run/api.address");
}

pid_t PlatformBed::pid_of(const std::string& process) const {
  return lock_holder(data_ + "/run/" + process + ".lock").value_or(0);
}

Result<Nanos> PlatformBed::plain_exec(const std::string& name, const Question& ask) {
  const std::string socket = folder_ + "/plain.sock";
  std::filesystem::remove(socket);
  const SteadyClock clock;
  const Time begin = clock.now();
  const pid_t pid = start_program({settings_.runtime, "serve", "--model", model_of(name), "--name",
                                   name, "--listen", "unix:" + socket},
                                  folder_ + "/plain.log");
  Result<Nanos> took = Error{ErrorKind::kTimeout, "the runtime alone does not answer"};
  for (const Time give_up = begin + kPatience; !took.ok() && clock.now() < give_up; ::usleep(500)) {
    wire::HttpClient client({.path = socket});
    const auto answer = client.call(verb::post, "/v2/models/" + name + "/infer", ask.body);
    if (!answer.ok()) continue;
    if (answer->body().find(ask.right) == std::string::npos) {
      took =
          Error{ErrorKind::kInternal, "the runtime alone answers " + answer->body().substr(0, 200)};
      break;
    }
    took = clock.now() - begin;
  }
  end_program(pid);
  return took;
}

void PlatformBed::reap() {
  for (pid_t pid; (pid = ::waitpid(-1, nullptr, WNOHANG)) > 0;)
    if (pid == supervisor_) supervisor_ = 0;
}

std::vector<pid_t> PlatformBed::end() {
  end_program(std::exchange(supervisor_, 0));
  std::vector<pid_t> left;
  for (int look = 0; look < 100; ++look) {
    reap();
    left = children_of(::getpid());
    if (left.empty()) return {};
    ::usleep(10'000);
  }
  // Each ended process leaves its own children to this one.
  for (std::vector<pid_t> now = left; !now.empty(); now = children_of(::getpid()))
    for (const pid_t pid : now) {
      ::kill(pid, SIGKILL);
      ::waitpid(pid, nullptr, 0);
    }
  return left;
}

}  // namespace sluice::bench
