// The supervisor: `sluice up`. Holds the listening sockets, starts the platform's processes,
// restarts those that die, and stops them in order. Its own death changes nothing: its children
// live in sessions of their own, and the next `up` on the same data directory adopts them,
// listening sockets included (pidfd_getfd). Each child holds the lock of DATA/run/NAME.lock from
// before its first instruction, so that the kernel identifies the process.
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
#include "wire/http/endpoint.h"

namespace sluice::cli {

struct ChildSpec {
  std::string name;                  // "gateway"; its log is DATA/logs/NAME.log
  std::vector<std::string> command;  // argv
  std::vector<std::string> listen;   // the addresses on which the supervisor listens for it
  bool serves_on = false;            // after Supervisor::End::kKeep, until the next start()
  // Called before its final stop, after all later processes have stopped; may be empty.
  std::function<void()> before_stop;
};

class Supervisor {
 public:
  // Makes DATA, DATA/run, DATA/logs. Returns kConflict if another `up` holds the data directory.
  static Result<Supervisor> open(const std::string& data);
  // Returns the process that holds it; nullopt if none does.
  static Result<std::optional<LockHolder>> holder(const std::string& data);
  // Returns the process of that name that runs on the data directory, whichever supervisor started
  // it.
  static Result<std::optional<LockHolder>> child(const std::string& data, const std::string& name);

  // Takes over those of these that a dead supervisor left running; they go on as they were started.
  // Of one that serves on since kKeep it takes the sockets; start() replaces it.
  Result<void> adopt(const std::vector<ChildSpec>& children);
  // Logs where they differ from the wanted flags and addresses.
  void warn_of_differences() const;
  bool has_children() const;
  // Makes the listening sockets of the others. Returns kConflict if another process listens there.
  Result<void> listen();
  // Returns the addresses of a child, in the order of its specification.
  Result<std::vector<wire::Endpoint>> addresses(const std::string& name) const;
  // Starts the others, in order; stops all again if one cannot be started.
  Result<void> start();

  // Runs until SIGINT or SIGTERM: restarts processes that die, at once or with backoff
  // (docs/design/processes.md). Then stops all, last started first, and waits for each at most
  // `patience`. SIGUSR1 ends as kKeep. A child that fails in its first seconds ends all, with its
  // own message.
  Result<void> run(Nanos patience);
  // kToReturn: without `before_stop`. kKeep: the same, but a child that serves on stays.
  enum class End { kForGood, kToReturn, kKeep };
  // Stops for good; an error names each process of the platform that runs on.
  Result<void> stop(End end, Nanos patience);

 private:
  struct Child {
    ChildSpec spec;
    std::vector<Fd> listening;
    Fd pidfd;
    Fd replaces;  // the process that serves on meanwhile
    int pid = 0;
    bool first = true;  // not restarted yet
    Time started{};
    Time restart_at{};  // if it is not running
    Nanos pause{0};
  };

  Supervisor() = default;
  Result<void> adopt(Child& child);
  bool serves_on(const Child& child, int pid) const;
  std::string mark_path(const Child& child) const;
  static bool take_sockets(Child& child, int pidfd);
  static bool listens_where_wanted(const Child& child);
  void end_replaced(Child& child) const;
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
