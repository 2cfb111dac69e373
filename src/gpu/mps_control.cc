#include "gpu/mps_control.h"

#include <signal.h>
#include <sys/syscall.h>

#include <algorithm>
#include <boost/asio/as_tuple.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <utility>

#include "base/log.h"
#include "process/backoff.h"
#include "process/channel.h"
#include "process/log_folder.h"

namespace sluice::node {
namespace {

constexpr size_t kControlSaid = 200;  // of what a control daemon printed

std::string in_words(Nanos time) {
  return std::to_string(time / Millis(1)) + " ms";
}

std::optional<pid_t> of_user(const std::vector<pid_t>& servers, uid_t user) {
  const auto found =
      std::ranges::find_if(servers, [&](pid_t server) { return uid_of(server) == user; });
  return found != servers.end() ? std::optional(*found) : std::nullopt;
}

}  // namespace

MpsControl::MpsControl(asio::io_context& io, const Clock& clock, MpsPlace place, uid_t user,
                       std::function<void()> changed, const MpsPatience& patience)
    : io_(io),
      clock_(clock),
      place_(std::move(place)),
      changed_(std::move(changed)),
      patience_(patience),
      user_(user) {}

void MpsControl::start() {
  asio::co_spawn(io_, live(), asio::detached);
}

asio::awaitable<void> MpsControl::live() {
  for (Backoff pause(patience_.shortest_pause, patience_.longest_pause);;) {
    const Time begin = clock_.now();
    const Result<void> runs = co_await find_or_start();
    std::string why = runs.ok() ? "" : runs.error().message;
    if (runs.ok()) {
      co_await watch();
      why = "control daemon " + std::to_string(process_.pid) +
            " ended: " + how_it_ended(process_.pidfd.get());
      if (const std::string said = last_lines(place_.output, kControlSaid); !said.empty())
        why += "; it said last: " + said;
    }
    process_ = {};
    if (quitting_) co_return;
    if (clock_.now() - begin > patience_.longest_pause) pause.reset();
    const Nanos rest = pause.next();
    say(false, why + "; tried again in " + in_words(rest));
    co_await sleep(rest);
  }
}

// One that runs already and does not answer is of no use to anybody.
asio::awaitable<Result<void>> MpsControl::find_or_start() {
  if (const Result<void> prepared = prepare(place_); !prepared.ok()) co_return prepared;
  const std::optional<ProcessIdentity> running = running_control_daemon(place_);
  Result<Fd> pidfd = Error{};
  if (running) pidfd = open_process(*running);
  if (running && pidfd.ok()) {
    process_ = {running->pid, std::move(*pidfd)};
    if (const auto servers = co_await pids(MpsListServers{}); servers.ok()) {
      if (!servers->empty()) user_ = uid_of(servers->front()).value_or(user_);
      log::info("MPS on {}: adopted control daemon {}", place_.gpu, process_.pid);
      co_return Result<void>();
    }
    log::warn("MPS on {}: control daemon {} does not answer, and is replaced", place_.gpu,
              process_.pid);
    syscall(SYS_pidfd_send_signal, process_.pidfd.get(), SIGKILL, nullptr, 0);
    co_await wait_for_end(io_, process_.pidfd.get());
  }
  Result<SpawnedProcess> started = start_control_daemon(place_);
  if (!started.ok()) co_return started.error();
  process_ = std::move(*started);
  co_return Result<void>();
}

// Until it has ended.
asio::awaitable<void> MpsControl::watch() {
  Backoff pause(patience_.shortest_pause, patience_.longest_pause);
  for (Nanos rest = pause.next(); !co_await ends_within(io_, process_.pidfd.get(), rest);) {
    const bool well = co_await check();
    if (well) pause.reset();
    rest = well ? patience_.look_every : pause.next();
  }
}

void MpsControl::serve(uid_t user) {
  if (std::exchange(user_, user) == user) return;
  log::info("MPS on {}: its server is to have the clients of user {}", place_.gpu, user);
  asio::co_spawn(io_, change_server(), asio::detached);
}

// watch() looks rarely while all is well; so this one looks until the new server serves.
asio::awaitable<void> MpsControl::change_server() {
  Backoff pause(patience_.shortest_pause, patience_.longest_pause);
  while (process_.pid != 0 && !quitting_ && !co_await check()) co_await sleep(pause.next());
}

// Says whether a new client would be served.
asio::awaitable<bool> MpsControl::check() {
  const std::string who = "control daemon " + std::to_string(process_.pid);
  const Result<void> well = co_await look();
  if (process_.pid != 0) say(well.ok(), well.ok() ? who : who + ": " + well.error().message);
  co_return well.ok();
}

// Whether a new client would be served.
asio::awaitable<Result<void>> MpsControl::look() {
  const Result<pid_t> pid = co_await server();
  if (!pid.ok()) co_return pid.error();
  const Result<std::string> answer = co_await ask(MpsServerStatus{*pid});
  if (!answer.ok()) co_return answer.error();
  const Result<MpsServerState> state = server_state_in(*answer);
  if (!state.ok()) co_return state.error();
  const std::string who = "server " + std::to_string(*pid);
  switch (*state) {
    case MpsServerState::kActive:
      co_return Result<void>();
    case MpsServerState::kInitializing:
      co_return Error{ErrorKind::kUnavailable, who + " starts"};
    case MpsServerState::kFault:
      break;
  }
  co_return Error{ErrorKind::kUnavailable,
                  who + " has had a fault, and takes no client until all its clients have ended"};
}

// Started before there is a client, so that none is sent to a GPU whose server does not start.
// Another user's ends first, once its clients have.
asio::awaitable<Result<pid_t>> MpsControl::server() {
  Result<std::vector<pid_t>> servers = co_await pids(MpsListServers{});
  if (!servers.ok()) co_return servers.error();
  if (const auto known = of_user(*servers, user_)) co_return *known;
  for (const pid_t other : *servers) (void)co_await ask(MpsShutDownServer{other});
  const Result<std::string> answer = co_await ask(MpsStartServer{user_});
  if (!answer.ok()) co_return answer.error();
  servers = co_await pids(MpsListServers{});
  if (!servers.ok()) co_return servers.error();
  if (const auto started = of_user(*servers, user_)) co_return *started;
  if (servers->empty()) co_return within("no server starts", refusal_in(*answer));
  co_return Error{ErrorKind::kUnavailable, "server " + std::to_string(servers->front()) +
                                               " has clients of another user than " +
                                               std::to_string(user_)};
}

asio::awaitable<Result<void>> MpsControl::terminate(ProcessIdentity client) {
  const Result<std::vector<pid_t>> servers = co_await pids(MpsListServers{});
  if (!servers.ok()) co_return servers.error();
  for (const pid_t server : *servers) {
    const Result<std::vector<pid_t>> clients = co_await pids(MpsListClients{server});
    if (!clients.ok()) co_return clients.error();
    // Its pid may be another's by now.
    if (std::ranges::find(*clients, client.pid) == clients->end() ||
        identity_of(client.pid) != client)
      continue;
    const Result<std::string> answer = co_await ask(MpsTerminateClient{server, client.pid});
    if (!answer.ok()) co_return answer.error();
    co_return termination_in(*answer);
  }
  co_return Result<void>();
}

asio::awaitable<void> MpsControl::quit() {
  quitting_ = true;
  if (process_.pid == 0) co_return;
  const Result<std::vector<pid_t>> servers = co_await pids(MpsListServers{});
  if (!servers.ok()) co_return;
  for (const pid_t server : *servers) {
    const Result<std::vector<pid_t>> clients = co_await pids(MpsListClients{server});
    if (!clients.ok() || !clients->empty()) co_return;
  }
  const Result<std::string> answer = co_await ask(MpsQuit{});
  if (process_.pid == 0) co_return;
  if (!co_await ends_within(io_, process_.pidfd.get(), patience_.end))
    log::warn("MPS on {}: control daemon {} was asked to quit and is still there{}", place_.gpu,
              process_.pid, answer.ok() ? "" : ": " + answer.error().message);
}

asio::awaitable<Result<std::string>> MpsControl::ask(MpsCommand command) {
  return ask_control_daemon(io_, place_, command, patience_.answer);
}

asio::awaitable<Result<std::vector<pid_t>>> MpsControl::pids(MpsCommand command) {
  const Result<std::string> answer = co_await ask(command);
  if (!answer.ok()) co_return answer.error();
  co_return pids_in(*answer);
}

asio::awaitable<void> MpsControl::sleep(Nanos time) {
  asio::steady_timer timer(io_, time);
  co_await timer.async_wait(asio::as_tuple(asio::use_awaitable));
}

void MpsControl::say(bool ready, std::string description) {
  if (ready == ready_ && description == description_) return;
  if (ready)
    log::info("MPS on {}: {} serves", place_.gpu, description);
  else
    log::warn("MPS on {}: {}", place_.gpu, description);
  ready_ = ready;
  description_ = std::move(description);
  changed_();
}

}  // namespace sluice::node
