#include "control/run.h"

#include <algorithm>
#include <boost/asio/as_tuple.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/signal_set.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <fstream>
#include <set>

#include "base/log.h"
#include "control/api.h"
#include "control/cluster_local.h"

namespace sluice::control {
namespace {

namespace asio = boost::asio;

constexpr int64_t kLongestWaitMs = 60'000;

// The loop's turns: on the beat, and at once after a change.
class Turns {
 public:
  Turns(asio::io_context& io, Control& control) : io_(io), control_(control), pause_(io) {}

  asio::awaitable<void> run() {
    for (;;) {
      if (std::chrono::steady_clock::now() >= next_) make();
      pause_.expires_at(next_);
      co_await pause_.async_wait(asio::as_tuple(asio::use_awaitable));
    }
  }
  // A turn now; the next one comes a step later.
  void make() {
    control_.step(unix_now());
    ++number_;
    for (asio::steady_timer* waiter : waiting_) waiter->cancel();
    // On the beat; a turn that took longer than one, or came early, sets a new one.
    const auto now = std::chrono::steady_clock::now();
    const Nanos step = control_.next_step();
    next_ = std::clamp(next_ + step, now, now + step);
    pause_.cancel();
  }
  uint64_t number() const { return number_; }

  // At once when `turn` is not the last one (it may be another loop's), else when the next has been
  // made, or after `patience`.
  asio::awaitable<void> after(uint64_t turn, Nanos patience) {
    if (number_ != turn) co_return;
    asio::steady_timer timer(io_, patience);
    waiting_.insert(&timer);
    co_await timer.async_wait(asio::as_tuple(asio::use_awaitable));
    waiting_.erase(&timer);
  }

 private:
  asio::io_context& io_;
  Control& control_;
  asio::steady_timer pause_;
  std::chrono::steady_clock::time_point next_;  // when the next turn is due; the first at once
  std::set<asio::steady_timer*> waiting_;
  uint64_t number_ = 0;
};

// GET …?after=TURN&wait_ms=N waits for the loop's next turn. What a change asks for begins before
// it is answered: a function that was applied can be called. Every answer says after which turn it
// was given.
asio::awaitable<wire::HttpResponse> answer(Api& api, Turns& turns, wire::HttpRequest request) {
  const auto target = wire::parse_target({request.target().data(), request.target().size()});
  if (target.ok() && request.method() == wire::http::verb::get && !target->get("wait_ms").empty() &&
      api.allows(request)) {
    const uint64_t turn = std::strtoull(target->get("after").c_str(), nullptr, 10);
    const int64_t wait = std::strtoll(target->get("wait_ms").c_str(), nullptr, 10);
    co_await turns.after(turn, Millis(std::clamp<int64_t>(wait, 0, kLongestWaitMs)));
  }
  wire::HttpResponse response = api.handle(request, unix_now());
  if (request.method() != wire::http::verb::get && response.result_int() / 100 == 2) turns.make();
  response.set("Sluice-Turn", std::to_string(turns.number()));
  co_return response;
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
  Turns turns(io, *control);
  const auto handler = [&turns](std::shared_ptr<Api> api) {
    return [&turns, api](wire::HttpRequest request) {
      return answer(*api, turns, std::move(request));
    };
  };
  // The socket is the owner's alone; over TCP everybody must bear the token.
  Fd local(o.listen_fd);
  if (!local.valid()) {
    SLUICE_ASSIGN(made, wire::listen_on({.path = o.data + "/run/api.sock"}));
    local = std::move(made);
  }
  wire::HttpServer unix_server(io, std::move(local),
                               handler(std::make_shared<Api>(*control, "", o.home)),
                               {.body_bytes = 4 << 20});
  std::unique_ptr<wire::HttpServer> tcp_server;
  if (o.tcp_fd >= 0) {
    if (token.empty())
      return Error{ErrorKind::kInternal,
                   o.data + "/token: missing: the API is not served over TCP without one"};
    tcp_server = std::make_unique<wire::HttpServer>(
        io, Fd(o.tcp_fd), handler(std::make_shared<Api>(*control, token, o.home)),
        wire::HttpLimits{.body_bytes = 4 << 20});
  }
  asio::signal_set signals(io, SIGTERM, SIGINT);
  signals.async_wait([&](boost::system::error_code fault, int) {
    if (!fault) io.stop();
  });
  asio::co_spawn(io, turns.run(), [](std::exception_ptr broken) {
    if (broken) std::rethrow_exception(broken);
  });
  log::info("policy {}, {} functions", o.settings.bundle, control->functions().size());
  io.run();
  control->close();
  return {};
}

}  // namespace sluice::control
