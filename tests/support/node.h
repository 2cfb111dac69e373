// A node daemon on a data directory of its own, with fake_runtime's instances, for tests across
// processes. The harness holds the listening socket as the supervisor does: requests to a daemon
// that is being restarted wait. Nothing sleeps: waits end by a pidfd or by the daemon's answer.
#pragma once

#include <gtest/gtest.h>
#include <poll.h>
#include <signal.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iostream>
#include <sstream>

#include "wire/http/http.h"

namespace sluice {

using nlohmann::json;
using wire::http::verb;

inline std::string program(const std::string& name) {  // beside this test
  return std::filesystem::read_symlink("/proc/self/exe").parent_path() / name;
}

inline Fd pidfd_of(pid_t pid) {
  return Fd(static_cast<int>(syscall(SYS_pidfd_open, pid, 0)));
}

inline bool ends_within(const Fd& pidfd, Nanos patience) {
  pollfd p{pidfd.get(), POLLIN, 0};
  return poll(&p, 1, static_cast<int>(patience / Millis(1))) == 1;
}

// Returns the folder of a process's own CPU group; empty if it has none.
inline std::string cpu_group_of(const json& pid) {
  std::ifstream groups("/proc/" + pid.dump() + "/cgroup");
  for (std::string line; std::getline(groups, line);) {
    const bool v1 = line.find(":cpu:") != line.npos;
    if (line.find("/sluice-") != line.npos && (v1 || line.starts_with("0::")))
      return "/sys/fs/cgroup" + std::string(v1 ? "/cpu" : "") + line.substr(line.rfind(':') + 1);
  }
  return "";
}

class Node {
 public:
  // `prepare` gets the new data directory first; if it returns false nothing starts.
  explicit Node(std::vector<std::string> flags = {},
                const std::function<bool(const std::string&)>& prepare = {},
                std::string main = "node_main")
      : flags_(std::move(flags)), main_(std::move(main)) {
    char folder[] = "/tmp/sluice-node-XXXXXX";
    data = mkdtemp(folder);
    prepared_ = !prepare || prepare(data);
    if (!prepared_) return;
    std::filesystem::create_directories(data + "/run");
    listening_ = std::move(*wire::listen_on({.path = data + "/run/node.sock"}));
    launch();
  }
  ~Node() {
    if (prepared_) end();
    umount2(data.c_str(), MNT_DETACH);  // where a test has mounted something
    std::filesystem::remove_all(data);
  }
  bool prepared() const { return prepared_; }

  void launch() {
    std::vector<std::string> words{program(main_), "node",      "--data",
                                   data,           "--runtime", program("fake_runtime"),
                                   "--listen-fd",  "3"};
    // Tests do not use this machine's GPUs.
    if (std::ranges::find(flags_, "--nvml") == flags_.end())
      words.insert(words.end(), {"--nvml", "none"});
    words.insert(words.end(), flags_.begin(), flags_.end());
    std::vector<char*> argv;
    for (std::string& w : words) argv.push_back(w.data());
    argv.push_back(nullptr);
    const Fd out(
        open((data + "/daemon.log").c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600));
    pid_ = fork();
    if (pid_ != 0) return;
    // No memory is taken here: another thread of the test may hold the allocator's lock.
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    dup2(out.get(), STDOUT_FILENO);
    dup2(out.get(), STDERR_FILENO);
    if (listening_.get() == 3)
      fcntl(3, F_SETFD, 0);
    else
      dup2(listening_.get(), 3);
    execv(argv[0], argv.data());
    _exit(127);
  }
  // Returns its exit status. One that does not end within 100 s ends the test, with its log.
  int stop(int signal) {
    kill(pid_, signal);
    return wait_for_end();
  }
  int wait_for_end() {
    if (!ends_within(pidfd_of(pid_), Seconds(100))) {
      std::cerr << "process " << pid_ << " does not end\n" << log();
      std::abort();
    }
    int status = 0;
    waitpid(pid_, &status, 0);
    pid_ = 0;
    return status;
  }
  void restart() {
    stop(SIGKILL);
    launch();
  }
  pid_t pid() const { return pid_; }
  // Returns whether the daemon has ended and was not waited for.
  bool ended() const {
    siginfo_t info{};
    return pid_ > 0 &&
           waitid(P_PID, static_cast<id_t>(pid_), &info, WEXITED | WNOHANG | WNOWAIT) == 0 &&
           info.si_pid == pid_;
  }
  std::string state_file() const { return data + "/run/node.state"; }

  // Returns the API's answer: its body, with the status beside it.
  json call(verb method, const std::string& target, const json& body = nullptr) {
    wire::HttpClient client({.path = data + "/run/node.sock"});
    const auto answer = client.call(method, target, body.is_null() ? "" : body.dump());
    if (!answer.ok()) return {{"error", answer.error().message}, {"status", 0}};
    json out = json::parse(answer->body(), nullptr, false);
    out["status"] = answer->result_int();
    return out;
  }
  json get(const std::string& target) { return call(verb::get, target); }
  // The same until there is an answer: a dying daemon closes its connections, and those that it has
  // not accepted wait for the next.
  // A daemon that stays silent ends the test, with its log: no later step could be judged.
  json insist(verb method, const std::string& target, const json& body = nullptr) {
    const SteadyClock clock;
    const Time give_up = clock.now() + Seconds(100);
    json answer = call(method, target, body);
    while (answer["status"] == 0 && clock.now() < give_up) answer = call(method, target, body);
    if (answer["status"] != 0) return answer;
    std::cerr << "no answer from process " << pid_ << " to " << target << ": " << answer["error"]
              << "\n"
              << log();
    std::abort();
  }

  // Returns a model with these words for fake_runtime; each list has a model of its own.
  std::string model(const std::string& words) {
    const std::string path = data + "/model " + words;
    if (!std::filesystem::exists(path)) std::ofstream(path) << words;
    return path;
  }
  static json slice(int request, int limit = 0, Bytes memory = 0) {
    return {{"sm", 1000},
            {"request", request},
            {"limit", limit > 0 ? limit : request},
            {"memory", memory}};
  }
  json start(const std::string& id, int request, const std::string& words = "",
             const std::string& device = "cpu0", const std::string& arbiter = "") {
    return call(verb::post, "/v1/instances",
                {{"id", id},
                 {"arbiter", arbiter},
                 {"function", "default/f"},
                 {"device", device},
                 {"slice", slice(request)},
                 {"model", {{"path", model(words)}}}});
  }
  // Starts it and waits until it serves.
  json ready(const std::string& id, int request, const std::string& words = "",
             const std::string& device = "cpu0") {
    const json started = start(id, request, words, device);
    EXPECT_EQ(started["status"], 202) << started;
    return wait(id, "ready");
  }
  json resize(const std::string& id, int request) {
    return call(verb::patch, "/v1/instances/" + id, {{"slice", slice(request)}});
  }
  json remove(const std::string& id, int drain_ms = 10'000) {
    return call(verb::delete_, "/v1/instances/" + id, {{"drain_ms", drain_ms}});
  }

  // Returns the instance once it is in that state; fails if it is gone instead, after 100 s, or
  // once the daemon has ended.
  json wait(const std::string& id, const std::string& state) {
    const SteadyClock clock;
    const Time give_up = clock.now() + Seconds(100);
    uint64_t seen = 0;
    json last;
    while (clock.now() < give_up) {
      json now = get("/v1/state?wait_ms=5000&after=" + std::to_string(seen));
      if (now["status"] == 0 && ended()) break;
      seen = now.value("version", uint64_t{0});
      for (const json& i : now.value("instances", json::array()))
        if (i["id"] == id) last = i;
      if (!last.is_null() && (last["state"] == state || last["state"] == "gone")) break;
    }
    EXPECT_EQ(last.is_null() ? "none" : last["state"], state) << last << log();
    return last;
  }

  // Returns an instance's own answer.
  json ask(const std::string& id, const std::string& target = "/", Nanos patience = Seconds(100)) {
    wire::HttpClient client({.path = data + "/run/i/" + id + ".sock"}, patience);
    const auto answer = client.json(verb::post, target);
    return answer.ok() ? *answer : json{{"error", answer.error().message}};
  }
  std::string log() const {
    std::ifstream file(data + "/daemon.log");
    return (std::ostringstream() << file.rdbuf()).str();
  }

  std::string data;

 private:
  // Ends the instances, and then the daemon.
  void end() {
    if (pid_ == 0) launch();
    for (json now = get("/v1/state"); kill_all(now) > 0;)
      now = get("/v1/state?wait_ms=1000&after=" + now["version"].dump());
    stop(SIGTERM);
  }
  // Kills our own living instances.
  static int kill_all(const json& state) {
    int alive = 0;
    for (const json& i : state.value("instances", json::array())) {
      if (i["state"] == "gone" || i["foreign"].get<bool>()) continue;
      ++alive;
      if (i["pid"] != 0) kill(i["pid"].get<pid_t>(), SIGKILL);
    }
    return alive;
  }

  const std::vector<std::string> flags_;
  const std::string main_;
  Fd listening_;
  bool prepared_ = false;
  pid_t pid_ = 0;
};

}  // namespace sluice
