#include "node/pod_launcher.h"

#include <fcntl.h>

#include <boost/asio/steady_timer.hpp>

#include "node/readiness.h"
#include "wire/http/await.h"

namespace sluice::node {
namespace {

// A process that computes runs without a quota for as long, at most, once it is in its container.
constexpr Nanos kPollEvery = Millis(20);
constexpr int kModelServersPort = 8080;
constexpr char kModelServersReady[] = "/v2/health/ready";

std::string described(const std::optional<PodStatus>& pod) {
  if (!pod) return "its Pod has not appeared";
  std::string text = "its Pod " + pod->name + " is " + (pod->phase.empty() ? "new" : pod->phase);
  if (!pod->why.empty()) text += ": " + pod->why;
  return text;
}

Nanos patience_of(const Birth& birth, Nanos otherwise) {
  const auto* program = std::get_if<ExecOfProgram>(&birth);
  return program != nullptr && program->ready_within > Nanos(0) ? program->ready_within : otherwise;
}

std::string within_seconds(Nanos patience) {
  return " within " + std::to_string(patience / Seconds(1)) + " s: ";
}

}  // namespace

int port_of_pod(const Birth& birth) {
  const auto* program = std::get_if<ExecOfProgram>(&birth);
  const int port = program != nullptr ? program->port.value_or(0) : 0;
  return port != 0 ? port : kModelServersPort;
}

PodLauncher::PodLauncher(asio::io_context& io, const Clock& clock, const Pods& pods,
                         Records& records, Enforcer& enforcer, Nanos ready_patience)
    : io_(io),
      clock_(clock),
      pods_(pods),
      records_(records),
      enforcer_(enforcer),
      ready_patience_(ready_patience) {}

Result<std::optional<ProcessIdentity>> PodLauncher::look_for_process(const InstanceId& id) {
  InstanceRecord* r = records_.find(id);
  if (r == nullptr || r->instance.state != InstanceState::kStarting)
    return Error{ErrorKind::kUnavailable, "stopped while it started"};
  const std::optional<PodStatus> pod = pods_.find(r->instance.function.space, id);
  if (pod && pod->ended) return Error{ErrorKind::kInvalid, described(pod)};
  // A later daemon knows the Pod by its record, while the API server may not answer.
  if (pod) r->pod = pod->uid;
  if (r->pod.empty()) return std::optional<ProcessIdentity>();
  return enforcer_.find_in_pod(*r, pod ? pod->containers : std::vector<std::string>());
}

asio::awaitable<Result<Newborn>> PodLauncher::bear(const InstanceRecord& asked, size_t /*part*/) {
  const InstanceId id = asked.instance.id;
  const std::string space = asked.instance.function.space;
  Time give_up = clock_.now() + ready_patience_;
  for (asio::steady_timer timer(io_);;) {
    Result<std::optional<ProcessIdentity>> found = look_for_process(id);
    if (!found.ok()) co_return found.error();
    if (*found)
      if (Result<Fd> pidfd = open_process(**found); pidfd.ok())
        co_return Newborn{**found, std::move(*pidfd), Channel(), 0};
    // A model of many gigabytes takes what its server takes; `sluice kube fetch` gives up by
    // itself.
    const std::optional<PodStatus> pod = pods_.find(space, id);
    if (!pods_.current() || (pod && pod->prepares)) give_up = clock_.now() + ready_patience_;
    if (clock_.now() >= give_up)
      co_return Error{ErrorKind::kTimeout,
                      "did not start" + within_seconds(ready_patience_) + described(pod)};
    timer.expires_after(kPollEvery);
    co_await timer.async_wait(wire::kAwait);
  }
}

asio::awaitable<Result<void>> PodLauncher::wait_until_ready(const Infant& infant) {
  const InstanceId id = infant.record.instance.id;
  const std::string space = infant.record.instance.function.space;
  const Birth birth = infant.record.birth;
  const Fd process(fcntl(infant.pidfd, F_DUPFD_CLOEXEC, 0));
  const Nanos patience = patience_of(birth, ready_patience_);
  Time give_up = clock_.now() + patience;
  std::optional<PodStatus> pod = pods_.find(space, id);
  for (; !pod || pod->ip.empty(); pod = pods_.find(space, id)) {
    if (!pods_.current()) give_up = clock_.now() + patience;
    if (clock_.now() >= give_up)
      co_return Error{ErrorKind::kTimeout,
                      "has no address" + within_seconds(patience) + described(pod)};
    if (co_await ends_within(io_, process.get(), kPollEvery))
      co_return Error{ErrorKind::kUnavailable, "ended before it had an address"};
  }
  InstanceRecord* r = records_.find(id);
  if (r == nullptr) co_return Error{ErrorKind::kUnavailable, "gone"};
  const wire::Endpoint at{.host = pod->ip, .port = static_cast<uint16_t>(port_of_pod(birth))};
  r->socket = wire::to_string(at);
  const auto* program = std::get_if<ExecOfProgram>(&birth);
  const Probe probe{at, program != nullptr ? program->ready_path : kModelServersReady, 0,
                    Probe::Where::kElsewhere};
  co_return co_await ready_within(io_, clock_, probe, process.get(), patience);
}

}  // namespace sluice::node
