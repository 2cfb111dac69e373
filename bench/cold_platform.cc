#include "bench/cold_platform.h"

#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <fstream>
#include <thread>

namespace sluice::bench {
namespace {

using wire::http::verb;

const SteadyClock kClock;

}  // namespace

pid_t run(std::vector<std::string> words, const std::string& log) {
  std::vector<char*> argv;
  for (std::string& w : words) argv.push_back(w.data());
  argv.push_back(nullptr);
  const pid_t pid = ::fork();
  if (pid != 0) return pid;
  const int out = ::open(log.c_str(), O_WRONLY | O_CREAT | O_APPEND, 0600);
  ::dup2(out, STDOUT_FILENO);
  ::dup2(out, STDERR_FILENO);
  ::execv(argv[0], argv.data());
  ::_exit(127);
}

void end(pid_t pid) {
  ::kill(pid, SIGTERM);
  ::waitpid(pid, nullptr, 0);
}

ColdPlatform::ColdPlatform(const std::string& sluice, const std::string& runtime,
                           const std::string& folder)
    : data_(folder + "/data") {
  // Enough devices that each has one core, like a reference's one thread.
  const unsigned devices = std::max(1u, std::thread::hardware_concurrency() * 3 / 4);
  pid_ = run({sluice, "--data", data_, "up", "--policy", "fixed", "--listen", "127.0.0.1:0",
              "--api", "127.0.0.1:0", "--runtime", runtime, "--devices", std::to_string(devices)},
             folder + "/up.log");
}

ColdPlatform::~ColdPlatform() {
  end(pid_);
}

Result<void> ColdPlatform::wait_until_up() {
  return until([&] {
    const auto status = api_.json(verb::get, "/v1/status");
    return status.ok() && status->value("gateway", false);
  });
}

Result<Start> ColdPlatform::deploy(const std::string& name, const std::string& spec,
                                   const Ask& ask) {
  const std::string file =
      "apiVersion: sluice.dev/v1alpha1\nkind: InferenceFunction\nmetadata: {name: " + name +
      "}\nspec: " + spec + "\n";
  SLUICE_ASSIGN(answer,
                api_.call(verb::post, "/v1/functions?file=bench", file, "application/yaml"));
  if (answer.result_int() != 200) return Error{ErrorKind::kInternal, answer.body()};
  return first_after_start(name, ask);
}

Result<Start> ColdPlatform::start_again(const std::string& name, const Ask& ask) {
  SLUICE_ASSIGN(instances, api_.json(verb::get, "/v1/instances"));
  for (const nlohmann::json& i : instances)
    if (i["state"] == "ready" && i["function"] == "default/" + name)
      ::kill(i["pid"].get<pid_t>(), SIGKILL);
  return first_after_start(name, ask);
}

Result<void> ColdPlatform::remove(const std::string& name) {
  SLUICE_ASSIGN(answer, api_.call(verb::delete_, "/v1/functions/default/" + name, ""));
  if (answer.result_int() >= 300) return Error{ErrorKind::kInternal, answer.body()};
  return until([&] {
    const auto instances = api_.json(verb::get, "/v1/instances");
    return instances.ok() && std::ranges::none_of(*instances, [&](const nlohmann::json& i) {
             return i["function"] == "default/" + name && i["state"] != "gone";
           });
  });
}

Result<Start> ColdPlatform::first_after_start(const std::string& name, const Ask& ask) {
  std::string address;
  std::ifstream(data_ + "/run/gateway.address") >> address;
  SLUICE_ASSIGN(at, wire::parse_endpoint(address));
  wire::HttpClient gateway(at, Seconds(60));
  SLUICE_ASSIGN(answer, ask(gateway));
  const UnixMillis now = unix_now();
  SLUICE_ASSIGN(decisions, api_.json(verb::get, "/v1/decisions?limit=5&function=default/" + name));
  for (const nlohmann::json& d : decisions)  // the newest first
    if (d["action"] == "start") {
      const UnixMillis decided = d["at"];
      if (decided <= last_start_[name]) break;
      last_start_[name] = decided;
      return Start{static_cast<double>(now - decided), answer};
    }
  return Error{ErrorKind::kInternal, "answered without a start: it was no cold one"};
}

Result<void> ColdPlatform::until(const std::function<bool()>& done) {
  const Time give_up = kClock.now() + Seconds(30);
  while (!done()) {
    if (kClock.now() > give_up) return Error{ErrorKind::kTimeout, "the platform: see up.log"};
    ::usleep(10'000);
  }
  return {};
}

}  // namespace sluice::bench
