// Turns a record into processes that serve: the birth of an instance, its cgroups, and its
// readiness. Each part on a CPU has a process, parts on GPUs have one for all, and all are born
// before the first one goes. From then on it is one of the live instances (live_instances.h).
//
// Belongs to one io_context with one thread, and must outlive its coroutines.
#pragma once

#include "node/launcher.h"
#include "node/live_instances.h"

namespace sluice::node {

class Births {
 public:
  Births(asio::io_context& io, const Clock& clock, Records& records, Reservations& reservations,
         Enforcer& enforcer, LiveInstances& live, Launcher& forks, Launcher& execs,
         Launcher& pythons, Launcher* pods = nullptr);
  Births(const Births&) = delete;

  // Begins the birth of an instance whose slice is reserved. A birth that fails ends the instance;
  // its record says why.
  void begin(const InstanceId& id);

 private:
  asio::awaitable<void> launch(InstanceId id);
  asio::awaitable<Result<std::vector<Newborn>>> bear_all(InstanceRecord asked, Launcher& launcher);
  asio::awaitable<Result<void>> raise(InstanceId id, std::vector<Newborn> newborns,
                                      Launcher& launcher);
  Result<void> let_go(const InstanceRecord& r, Launcher& launcher);
  Launcher& launcher_of(const Birth& birth) const;

  asio::io_context& io_;
  const Clock& clock_;
  Records& records_;
  Reservations& reservations_;
  Enforcer& enforcer_;
  LiveInstances& live_;
  Launcher &forks_, &execs_, &pythons_;
  Launcher* const pods_;  // of all instances; nullptr: they are processes of the daemon's
};

}  // namespace sluice::node
