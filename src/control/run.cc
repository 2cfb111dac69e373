#include "control/run.h"

#include <boost/asio/as_tuple.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/signal_set.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <fstream>

#include "base/log.h"
#include "control/api.h"
#include "control/cluster_local.h"

namespace sluice::control {
namespace {

namespace asio = boost::asio;

asio::awaitable<void> loop(asio::io_context& io, Control& control, const bool& ending) {
  asio::steady_timer timer(io);
  auto next = std::chrono::steady_clock::now();
  while (!ending) {
    control.step(unix_now());
    // A turn that took longer than that skips.
    next = std::max(next + control.next_step(), std::chrono::steady_clock::now());
    timer.expires_at(next);
    co_await timer.async_wait(asio::as_tuple(asio::use_awaitable));
  }
}

}  // namespace

Result<void> run_control(const ControlOptions& o) {
  SLUICE_ASSIGN(store, Store::open(o.data + "/control.db"));
  const SteadyClock clock;
  LocalCluster cluster(o.data + "/run/node.sock", o.data + "/run/gateway.sock");
  SLUICE_ASSIGN(control, Control::open(store, cluster, clock, o.settings));
  std::string token;
  std::ifstream(o.data + "/token") >> token;

  asio::io_context io(1);
  const auto handler = [](std::shared_ptr<Api> api) {
    return [api](wire::HttpRequest request) -> asio::awaitable<wire::HttpResponse> {
      co_return api->handle(request, unix_now());
    };
  };
  // The socket is the owner's alone; over TCP everybody must bear the token.
  SLUICE_ASSIGN(local, wire::listen_on({.path = o.data + "/run/api.sock"}));
  wire::HttpServer unix_server(io, std::move(local),
                               handler(std::make_shared<Api>(*control, "", o.home)),
                               {.body_bytes = 4 << 20});
  std::unique_ptr<wire::HttpServer> tcp_server;
  if (o.listen_fd >= 0) {
    if (token.empty())
      return Error{ErrorKind::kInternal,
                   o.data + "/token: missing: the API is not served over TCP without one"};
    tcp_server = std::make_unique<wire::HttpServer>(
        io, Fd(o.listen_fd), handler(std::make_shared<Api>(*control, token, o.home)),
        wire::HttpLimits{.body_bytes = 4 << 20});
  }
  bool ending = false;
  asio::signal_set signals(io, SIGTERM, SIGINT);
  signals.async_wait([&](boost::system::error_code fault, int) {
    if (fault) return;
    ending = true;
    io.stop();
  });
  asio::co_spawn(io, loop(io, *control, ending), [](std::exception_ptr broken) {
    if (broken) std::rethrow_exception(broken);
  });
  log::info("policy {}, {} functions", o.settings.bundle, control->functions().size());
  io.run();
  return {};
}

}  // namespace sluice::control
