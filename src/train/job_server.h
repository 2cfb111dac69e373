// Where workers find their jobs: a listening socket, a thread, and a Job for each training function.
// A connection that closes tells of its worker's end at once.
//
// Any thread may call it; the jobs belong to its own thread, under one lock.
#pragma once

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
#include "wire/endpoint.h"

namespace sluice::train {

class JobServer {
 public:
  // Listens at once. `term`: higher than any earlier server's of these jobs.
  static Result<std::unique_ptr<JobServer>> open(const wire::Endpoint& at, int64_t term,
                                                 const Clock& clock);
  ~JobServer();
  JobServer(const JobServer&) = delete;

  // Workers that name the job and bear the key are its own from now on. A job that is there already
  // stays as it is. Until a job was added, its workers are turned away without a word, and try again:
  // those of an earlier server may come first.
  void add(const std::string& name, const std::string& key, JobSettings settings);
  // A worker of it was started, and should say hello.
  void expect(const std::string& name);
  // Its workers are refused from now on.
  void remove(const std::string& name);
  std::optional<JobStatus> status(const std::string& name) const;

 private:
  struct Connection {
    Fd socket;
    std::string in, out;
    std::string job, worker;  // once it has said hello
    bool closing = false;     // after `out`
  };
  struct Entry {
    std::string key;
    Job job;
  };

  JobServer(Fd listening, int64_t term, const Clock& clock);
  void run();
  void accept_all();
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
  Fd wake_;  // an eventfd
  mutable std::mutex lock_;
  bool ending_ = false;
  std::map<std::string, Entry> jobs_;
  std::set<std::string> removed_;
  std::vector<std::unique_ptr<Connection>> connections_;
  std::thread thread_;
};

}  // namespace sluice::train
