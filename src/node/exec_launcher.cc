#include "node/exec_launcher.h"

#include "node/program_start.h"
#include "node/readiness.h"

namespace sluice::node {

ExecLauncher::ExecLauncher(asio::io_context& io, const Clock& clock, EnvironmentOf environment,
                           Nanos ready_patience)
    : io_(io),
      clock_(clock),
      environment_(std::move(environment)),
      ready_patience_(ready_patience) {}

Result<ProgramStart> ExecLauncher::plan(const InstanceRecord& r, size_t part) const {
  SLUICE_ASSIGN(variables, environment_(r, part));
  return start_of(r, part, variables);
}

asio::awaitable<Result<Newborn>> ExecLauncher::bear(const InstanceRecord& r, size_t part) {
  Result<ProgramStart> start = plan(r, part);
  if (!start.ok()) co_return start.error();
  co_return fork_waiting(io_, std::move(*start));
}

Result<void> ExecLauncher::go(const Infant& infant) {
  return infant.control.send(wire::Go{});
}

asio::awaitable<Result<void>> ExecLauncher::wait_until_ready(const Infant& infant) {
  const auto& birth = std::get<ExecOfProgram>(infant.record.birth);
  const Probe probe{wire::parse_endpoint(infant.record.socket).value_or({}), birth.ready_path,
                    infant.record.uid};
  const Nanos patience = birth.ready_within > Nanos(0) ? birth.ready_within : ready_patience_;
  co_return co_await ready_within(io_, clock_, probe, infant.pidfd, patience);
}

Result<int> free_port(const std::function<bool(int)>& taken) {
  std::vector<Fd> passed_over;  // bound meanwhile, so that the kernel does not choose them again
  for (;;) {
    SLUICE_ASSIGN(listening, wire::listen_on({.host = "127.0.0.1"}));
    SLUICE_ASSIGN(at, wire::bound_to(listening));
    if (!taken(at.port)) return static_cast<int>(at.port);
    passed_over.push_back(std::move(listening));
  }
}

}  // namespace sluice::node
