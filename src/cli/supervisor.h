// The supervisor: `sluice up`. Holds the listening sockets, starts the platform's processes, starts
// those that die again, and stops them in order. Its own death changes nothing: its children live
// in sessions of their own, and the next `up` on the same data directory adopts them, listening
// sockets included (pidfd_getfd). Each child holds the lock of DATA/run/NAME.lock from before its
// first instruction, so that the kernel says which process it is.
//
// One thread, in which SIGINT, SIGTERM and SIGUSR1 are blocked from open() on. Owns the data
// directory's lock for as long as it lives.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/fd.h"
#include "base/lock_file.h"
#include "base/result.h"
#include "wire/endpoint.h"

namespace sluice::cli {

struct ChildSpec {
  std::string name;                  // "gateway"; its log is DATA/logs/NAME.log
  std::vector<std::string> command;  // argv
  std::vector<std::string> listen;   // the addresses that are listened on for it
  // Called before it is stopped for good, when all that started later has stopped; may be empty.
  std::function<void()> before_stop;
};

class Supervisor {
 public:
  // kConflict: another `up` holds the data directory. Makes DATA, DATA/run, DATA/logs.
  static Result<Supervisor> open(const std::string& data);
  // The process that holds it; nullopt where none does.
  static Result<std::optional<LockHolder>> holder(const std::string& data);
  // The process of that name that runs on the data directory, whichever supervisor started it.
  static Result<std::optional<LockHolder>> child(const std::string& data, const std::string& name);

  // Takes over what lives of these from a supervisor that died; they go on as they were started.
  Result<void> adopt(const std::vector<ChildSpec>& children);
  // Logs where that differs from what is wanted now: flags, and addresses.
  void warn_of_differences() const;
  bool has_children() const;
  // Makes the listening sockets of the others. kConflict: somebody listens there.
  Result<void> listen();
  // Where a child can be reached, in the order of its specification.
  Result<std::vector<wire::Endpoint>> addresses(const std::string& name) const;
  // Starts the others, in order; all are stopped again when one cannot be started.
  Result<void> start();

  // Until SIGINT or SIGTERM: restarts what dies, at once or with backoff (processes.md). Then stops
  // all, last started first, and waits for each at most `patience`. SIGUSR1 ends the same way but
  // for `before_stop`. A child that fails in its first seconds ends all with its own words.
  Result<void> run(Nanos patience);
  enum class End { kForGood, kToReturn };
  // For good: an error names each process of the platform that runs on.
  Result<void> stop(End end, Nanos patience);

 private:
  struct Child {
    ChildSpec spec;
    std::vector<Fd> listening;
    Fd pidfd;
    int pid = 0;
    bool first = true;  // never started again
    Time started{};
    Time restart_at{};  // when not running
    Nanos pause{0};
  };

  Supervisor() = default;
  Result<void> adopt(Child& child);
  static bool take_sockets(Child& child, int pidfd);
  Result<void> launch(Child& child);
  Result<void> reap(Child& child);
  void restart(Child& child);
  void stop(Child& child, End end, Nanos patience);
  std::string log_path(const Child& child) const;

  std::string data_;
  Fd lock_;
  std::vector<Child> children_;
  SteadyClock clock_;
};

}  // namespace sluice::cli
