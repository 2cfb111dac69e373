#include "store/gpu_store.h"

#include <sys/socket.h>
#include <unistd.h>

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <boost/asio/steady_timer.hpp>
#include <cerrno>
#include <utility>

#include "base/log.h"
#include "base/system_error.h"
#include "process/backoff.h"
#include "process/channel.h"
#include "process/local_socket.h"
#include "process/log_folder.h"
#include "store/process.h"
#include "wire/http/await.h"

namespace sluice::node {
namespace {

using wire::kAwait;
constexpr Nanos kShortestPause = Millis(100);
constexpr Nanos kLongestPause = Seconds(30);
constexpr Nanos kLookAgain = Millis(500);  // at waiting connections that lacked a descriptor
constexpr size_t kStoreSaid = 200;         // of the store's output
constexpr int kControl = 3;                // the store's descriptor

asio::awaitable<void> sleep(asio::io_context& io, Nanos time) {
  asio::steady_timer timer(io, time);
  co_await timer.async_wait(kAwait);
}

}  // namespace

GpuStore::GpuStore(asio::io_context& io, const Clock& clock, GpuStorePlace place, OwnerOf owner_of)
    : io_(io), clock_(clock), place_(std::move(place)), owner_of_(std::move(owner_of)) {}

Result<void> GpuStore::start() {
  SLUICE_ASSIGN(listener, listen_at(place_.socket, "model store"));
  listener_ = std::move(listener);
  asio::co_spawn(io_, live(), asio::detached);
  asio::co_spawn(io_, accept_all(), asio::detached);
  return {};
}

asio::awaitable<void> GpuStore::live() {
  for (Backoff pause(kShortestPause, kLongestPause);;) {
    const Time begin = clock_.now();
    const Result<void> started = start_process();
    std::string why = started.ok() ? "" : started.error().message;
    if (started.ok()) {
      log::info("model store of {}: process {}", place_.gpu, process_.pid);
      co_await wait_for_end(io_, process_.pidfd.get());
      why = "process " + std::to_string(process_.pid) +
            " ended: " + how_it_ended(process_.pidfd.get());
      if (const std::string said = last_lines(place_.output, kStoreSaid); !said.empty())
        why += "; it said last: " + said;
    }
    process_ = {};
    control_.reset();
    if (clock_.now() - begin > kLongestPause) pause.reset();
    const Nanos rest = pause.next();
    log::warn("model store of {}: {}; started again in {} ms", place_.gpu, why, rest / Millis(1));
    co_await sleep(io_, rest);
  }
}

// The store sees only its own GPU, which is number 0 then, and is no client of MPS.
Result<void> GpuStore::start_process() {
  SLUICE_ASSIGN(pair, make_socket_pair());
  const Fd input(open("/dev/null", O_RDONLY | O_CLOEXEC));
  const Fd output(open(place_.output.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600));
  if (!input.valid() || !output.valid()) return system_error(place_.output);
  SpawnRequest request{
      .program = place_.program,
      .words = {std::to_string(kControl), std::to_string(place_.capacity), "cuda:0"},
      .variables = environment_without({"CUDA_VISIBLE_DEVICES=", "CUDA_MPS_", "SLUICE_PLATFORM="}),
      .files = {{input.get(), STDIN_FILENO},
                {output.get(), STDOUT_FILENO},
                {output.get(), STDERR_FILENO},
                {pair.theirs.get(), kControl}}};
  request.variables.push_back("CUDA_VISIBLE_DEVICES=" + place_.gpu);
  SLUICE_ASSIGN(process, spawn(std::move(request)));
  process_ = std::move(process);
  control_ = std::move(pair.ours);
  return {};
}

// Without free descriptors a connection waits, and this loop sleeps meanwhile.
asio::awaitable<void> GpuStore::accept_all() {
  asio::posix::stream_descriptor listener(io_);
  while (!watch_copy(listener, listener_.get())) co_await sleep(io_, kLookAgain);
  for (bool said = false;;) {
    const auto [fault] =
        co_await listener.async_wait(asio::posix::stream_descriptor::wait_read, kAwait);
    if (fault) co_return;
    Fd client(accept4(listener_.get(), nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC));
    if (client.valid()) {
      said = false;
      if (const Result<void> handed = hand_over(std::move(client)); !handed.ok())
        log::info("model store of {}: {}", place_.gpu, handed.error().message);
    } else if (errno != EAGAIN && errno != EINTR && errno != ECONNABORTED) {
      const Error why = system_error(place_.socket);
      if (!std::exchange(said, true))
        log::warn("model store of {}: {}; new clients wait", place_.gpu, why.message);
      co_await sleep(io_, kLookAgain);
    }
  }
}

// If it fails, the client finds its connection closed, and loads a copy of its own.
Result<void> GpuStore::hand_over(Fd client) {
  SLUICE_ASSIGN(peer, identify_peer(client.get()));
  SLUICE_ASSIGN(owner, owner_of_(peer));
  if (!control_.valid()) return Error{ErrorKind::kUnavailable, "it does not run now"};
  return hand_to_store(control_.get(), owner, std::move(client));
}

}  // namespace sluice::node
