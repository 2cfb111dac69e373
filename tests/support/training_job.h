// A training job with real workers, but without a platform: a job server in this process, and
// sluice-trainer processes that the test starts, ends and kills. For tests and benchmarks.
#pragma once

#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <functional>
#include <map>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include "base/clock.h"
#include "train/job_server.h"

namespace sluice::train {

class TrainingJob {
 public:
  // `trainer`: the program and its arguments, words; `folder`: for the socket, logs and artifacts.
  TrainingJob(const std::string& trainer, const std::string& folder, JobSettings settings,
              JobServerLimits limits = {})
      : folder_(folder), settings_(std::move(settings)), limits_(limits) {
    std::istringstream words(trainer);
    for (std::string word; words >> word;) trainer_.push_back(word);
    settings_.job.artifacts = folder + "/artifacts";
    std::filesystem::create_directories(settings_.job.artifacts);
    serve();
  }
  ~TrainingJob() {
    for (const auto& [name, pid] : workers_) kill(pid, SIGKILL);
    for (const auto& [name, pid] : workers_) waitpid(pid, nullptr, 0);
  }

  const std::string& start_worker() {
    const std::string name = "w" + std::to_string(++started_);
    std::vector<std::string> variables = {"JOB_CONTROLLER=unix:" + socket(),
                                          "JOB_NAME=job",
                                          "JOB_KEY=key",
                                          "JOB_WORKER=" + name,
                                          "OMP_NUM_THREADS=1",
                                          "GLOG_minloglevel=2"};
    std::vector<char*> environment, arguments;
    for (std::string& a : trainer_) arguments.push_back(a.data());
    arguments.push_back(nullptr);
    for (std::string& v : variables) environment.push_back(v.data());
    environment.push_back(nullptr);
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_addopen(&actions, 1, log().c_str(), O_WRONLY | O_CREAT | O_APPEND,
                                     0644);
    posix_spawn_file_actions_adddup2(&actions, 1, 2);
    pid_t pid = 0;
    posix_spawn(&pid, trainer_.front().c_str(), &actions, nullptr, arguments.data(),
                environment.data());
    posix_spawn_file_actions_destroy(&actions);
    return workers_.emplace(name, pid).first->first;
  }
  void signal(const std::string& worker, int number) { kill(workers_.at(worker), number); }

  // Removes those that have ended; returns the exit statuses of waitpid().
  std::map<std::string, int> reap() {
    std::map<std::string, int> ended;
    for (auto w = workers_.begin(); w != workers_.end();) {
      int status = 0;
      const bool gone = waitpid(w->second, &status, WNOHANG) > 0;
      if (gone) ended[w->first] = status;
      w = gone ? workers_.erase(w) : std::next(w);
    }
    return ended;
  }
  std::vector<std::string> workers() const {
    std::vector<std::string> names;
    for (const auto& [name, pid] : workers_) names.push_back(name);
    return names;
  }

  // Asks all to leave, and waits until they have.
  bool end_all() {
    for (const auto& [name, pid] : workers_) kill(pid, SIGTERM);
    return wait_until([this](const JobStatus&) { return reap(), workers_.empty(); });
  }

  // The controller's death and its successor, which only knows the newest checkpoint.
  void restart_controller() {
    const JobStatus before = status();
    server_.reset();
    settings_.resume = before.checkpoint;
    serve();
  }

  JobStatus status() const { return *server_->status("job"); }
  // Returns false if that does not happen in time.
  bool wait_until(const std::function<bool(const JobStatus&)>& happened,
                  Nanos patience = Seconds(60)) const {
    const Time deadline = clock_.now() + patience;
    while (!happened(status())) {
      if (clock_.now() > deadline) return false;
      std::this_thread::sleep_for(Millis(2));
    }
    return true;
  }

  std::string log() const { return folder_ + "/log"; }

 private:
  std::string socket() const { return folder_ + "/jobs.sock"; }
  void serve() {
    server_ = *JobServer::open({.path = socket()}, ++term_, clock_, limits_);
    server_->add("job", "key", settings_);
  }

  std::vector<std::string> trainer_;
  std::string folder_;
  JobSettings settings_;
  const JobServerLimits limits_;
  SteadyClock clock_;
  int64_t term_ = 0;
  int started_ = 0;
  std::map<std::string, pid_t> workers_;
  std::unique_ptr<JobServer> server_;
};

}  // namespace sluice::train
