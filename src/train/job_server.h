// Where workers find their jobs: a listening socket, a thread, and a Job for each training
// function. A connection that closes tells of its worker's end at once. A worker that does not
// answer a ping in time is given up, as if it had closed.
//
// Any local process may connect, so that each connection, each job and each user id has limits.
//
// Any thread may call it; the jobs belong to its own thread, under one lock.
#pragma once

#include <sys/types.h>

#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "base/clock.h"
#include "base/fd.h"
#include "base/result.h"
#include "train/job.h"
#include "wire/http/endpoint.h"

namespace sluice::train {

struct JobServerLimits {
  Nanos hello = Seconds(10);   // a connection may take to say hello
  Nanos ping = Seconds(5);     // between two pings of a worker
  Nanos answer = Seconds(30);  // a worker may take to answer a ping
  size_t connections = 512;    // beyond, the oldest one without a hello is closed for a new one
  size_t workers = 64;         // of a job
  size_t strangers = 32;       // connections of one user id without a hello; more are closed
};

class JobServer {
 public:
  // Listens at once. `term`: higher than any earlier server's of these jobs.
  static Result<std::unique_ptr<JobServer>> open(const wire::Endpoint& at, int64_t term,
                                                 const Clock& clock, JobServerLimits limits = {});
  ~JobServer();
  JobServer(const JobServer&) = delete;

  // Workers that name the job and bear the key are its own from now on. A job that is there already
  // stays as it is. Until a job was added, its workers are turned away without a word, and try
  // again: those of an earlier server may come first.
  void add(const std::string& name, const std::string& key, JobSettings settings);
  // That worker of it was started, and should say hello.
  void expect(const std::string& name, const std::string& worker);
  // Those of its workers run; see Job::expect_back().
  void expect_back(const std::string& name, const std::vector<std::string>& workers);
  // That worker of it has ended; see Job::ended().
  bool ended(const std::string& name, const std::string& worker, const std::string& error);
  // Its workers are refused from now on.
  void remove(const std::string& name);
  std::optional<JobStatus> status(const std::string& name) const;

 private:
  struct Connection {
    Fd socket;
    std::string in, out;
    std::string job, worker;    // once it has said hello
    uid_t uid = 0;              // of the process that connected
    Time since{};               // the connection's begin
    std::optional<Time> asked;  // the first ping after what came last; nullopt: none is open
    bool closing = false;       // after `out`
  };
  struct Entry {
    std::string key;
    Job job;
  };

  JobServer(Fd listening, int64_t term, const Clock& clock, JobServerLimits limits);
  void run();
  void accept_all();
  bool admit(uid_t uid);
  Nanos silence_of(const Connection& c) const;
  size_t workers_of(const std::string& job) const;
  void close_silent();
  void ping_all();
  std::string silent_workers(const std::string& job) const;
  void read(Connection& c);
  void write(Connection& c);
  void receive(Connection& c, std::string_view line);
  void close(Connection& c);
  void send(const std::string& job, const std::vector<Outgoing>& messages);
  Connection* connection_of(const std::string& job, const std::string& worker);
  int timeout_ms() const;
  void wake() const;

  const Fd listening_;
  const int64_t term_;
  const Clock& clock_;
  const JobServerLimits limits_;
  Fd wake_;  // an eventfd
  Time pinged_{};
  mutable std::mutex lock_;
  bool ending_ = false;
  std::map<std::string, Entry> jobs_;
  std::set<std::string> removed_;
  std::vector<std::unique_ptr<Connection>> connections_;
  std::thread thread_;
};

}  // namespace sluice::train
