#include "control/api/run.h"

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/signal_set.hpp>
#include <exception>
#include <memory>
#include <utility>

#include "base/log.h"
#include "control/api/memory_limit.h"
#include "control/api/serving.h"

namespace sluice::control {
namespace {

namespace asio = boost::asio;

constexpr Nanos kTcpGap = Millis(5);  // strangers may connect there: 200 a second take little time
constexpr size_t kLargestBody = 1 << 20;  // of function files and profiles

}  // namespace

Result<void> run_control(const Ports& ports, const ControlSettings& settings, ApiSockets sockets) {
  asio::io_context io(1);
  SLUICE_ASSIGN(control, Control::open(ports, settings));
  {
    Serving serving(io, *control, ports.cluster, *ports.models);
    const auto serve = [&](Fd listening, const std::string& bearer, Nanos gap) {
      const auto api = std::make_shared<Api>(*control, bearer, sockets.home);
      return std::make_unique<wire::HttpServer>(
          io, std::move(listening),
          [&serving, api](wire::HttpRequest request) {
            return serving.answer(*api, std::move(request));
          },
          wire::HttpLimits{.body_bytes = kLargestBody, .gap = gap},
          [api](const wire::HttpHead& head) { return api->refusal(head); });
    };
    const auto local = serve(std::move(sockets.local), "", Nanos(0));
    const auto tcp =
        sockets.tcp.valid() ? serve(std::move(sockets.tcp), sockets.token, kTcpGap) : nullptr;
    asio::signal_set signals(io, SIGTERM, SIGINT);
    signals.async_wait([&](boost::system::error_code fault, int) {
      if (!fault) io.stop();
    });
    asio::co_spawn(io, serving.run_ticks(), [](std::exception_ptr broken) {
      if (broken) std::rethrow_exception(broken);
    });
    log::info("policy {}, {} functions", settings.bundle, control->functions().size());
    if (const auto limited = limit_memory(); !limited.ok())
      log::warn("memory is not limited: {}", limited.error().message);
    io.run();
  }
  control->close();
  return {};
}

}  // namespace sluice::control
