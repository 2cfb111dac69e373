// The supervisor: `sluice up`. Holds the listening sockets, starts the platform's processes, starts
// those that die again, and stops them in order. Its own death changes nothing: its children live
// in sessions of their own, and the next `up` on the same data directory adopts them, listening
// sockets included (pidfd_getfd).
//
// One thread. Owns the data directory's lock for as long as it lives.
#pragma once

#include <chrono>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/fd.h"
#include "base/result.h"

namespace sluice::cli {

struct ChildSpec {
  std::string name;                  // "gateway"; its log is DATA/logs/NAME.log
  std::vector<std::string> command;  // argv; "{fd}" becomes the inherited listening descriptor
  std::function<void()>
      before_stop;     // called when all that started later has stopped; may be empty
  std::string listen;  // an address to listen on for it; empty: none
};

class Supervisor {
 public:
  // kConflict: another `up` holds the data directory. Makes DATA, DATA/run, DATA/logs.
  static Result<Supervisor> open(const std::string& data);

  // Adopts what lives from before, starts the rest in order. kConflict: an address is taken.
  Result<void> start(const std::vector<ChildSpec>& children);

  // Until SIGINT or SIGTERM: restarts what dies, at once and then with growing pauses. Then stops
  // all, last started first, and waits for each at most `patience`.
  void run(Nanos patience);

 private:
  struct Child {
    ChildSpec spec;
    Fd listening;
    Fd pidfd;
    int pid = 0;
    Time started{};
    Time restart_at{};  // when not running
    Nanos pause{0};
  };

  Supervisor() = default;
  Result<void> adopt(Child& child);
  Result<void> launch(Child& child);
  void note(const Child& child) const;
  void reap(Child& child);
  void stop(Child& child, Nanos patience);
  std::string record_path(const Child& child) const;

  std::string data_;
  Fd lock_;
  std::vector<Child> children_;
  SteadyClock clock_;
};

}  // namespace sluice::cli
