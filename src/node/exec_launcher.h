// Instances that are programs, started by exec under their own uid. A program gets no pages: its
// gate or hook, preloaded by its environment, asks for them at the slice's socket, as under
// `sluice run`. It is drained by SIGTERM.
#pragma once

#include <functional>

#include "node/launcher.h"
#include "node/program_start.h"

namespace sluice::node {

// Returns all variables for the program of a part, except those that name its address.
using EnvironmentOf = std::function<Result<Variables>(const InstanceRecord&, size_t part)>;

class ExecLauncher : public Launcher {
 public:
  ExecLauncher(asio::io_context& io, const Clock& clock, EnvironmentOf environment,
               Nanos ready_patience);

  // Forks the daemon (program_start.h), with the record's log as the child's output.
  asio::awaitable<Result<Newborn>> bear(const InstanceRecord& r, size_t part) override;
  Result<void> go(const Infant& infant) override;
  asio::awaitable<Result<void>> wait_until_ready(const Infant& infant) override;

 protected:
  Result<ProgramStart> plan(const InstanceRecord& r, size_t part) const;

  asio::io_context& io_;

 private:
  const Clock& clock_;
  const EnvironmentOf environment_;
  const Nanos ready_patience_;
};

// Returns a port of 127.0.0.1 that is free now and not `taken`. Another process may bind it before
// its program does: the program then fails to start.
Result<int> free_port(const std::function<bool(int)>& taken);

}  // namespace sluice::node
