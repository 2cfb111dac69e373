#include "wire/http/tls_front.h"

#include <array>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/local/stream_protocol.hpp>
#include <boost/asio/ssl/stream.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/write.hpp>
#include <thread>

#include "base/clock.h"
#include "base/log.h"
#include "wire/http/await.h"

namespace sluice::wire {
namespace {

namespace asio = boost::asio;
using asio::ip::tcp;
using Local = asio::local::stream_protocol;
using TlsStream = asio::ssl::stream<tcp::socket>;

constexpr Nanos kHandshake = Seconds(5);
constexpr Nanos kFull = Millis(50);  // then it is polled again whether a connection has ended

// One connection and the one behind it.
struct Relay {
  Relay(tcp::socket from, TlsContext c)
      : context(std::move(c)), outer(std::move(from), *context), inner(outer.get_executor()) {}

  TlsContext context;
  TlsStream outer;
  Local::socket inner;

  void close() {
    boost::system::error_code gone;
    outer.lowest_layer().close(gone);
    inner.close(gone);
  }
};

// Carries bytes one way until either side ends, which ends the connection: HTTP's clients keep
// their side open until they have their answer.
asio::awaitable<void> carry(std::shared_ptr<Relay> relay, auto& from, auto& to) {
  std::array<char, 16384> room;
  for (;;) {
    const auto [fault, n] = co_await from.async_read_some(asio::buffer(room), kAwait);
    if (fault || n == 0) break;
    const auto [lost, sent] = co_await asio::async_write(to, asio::buffer(room, n), kAwait);
    if (lost) break;
  }
  relay->close();
}

}  // namespace

struct TlsFront::State {
  State(Fd listening, TlsFrontSettings s)
      : settings(std::move(s)),
        folder(settings.tls),
        acceptor(io, tcp::v4(), listening.release()) {}

  asio::awaitable<void> accept_all();
  asio::awaitable<void> serve(tcp::socket socket);

  const TlsFrontSettings settings;
  TlsFolder folder;
  asio::io_context io{1};
  tcp::acceptor acceptor;
  int open = 0;
  std::thread thread;
};

asio::awaitable<void> TlsFront::State::accept_all() {
  asio::steady_timer pause(io);
  for (bool refused = false;;) {
    if (open >= settings.connections || refused) {  // refused: for lack of a descriptor, mostly
      pause.expires_after(kFull);
      (void)co_await pause.async_wait(kAwait);
      refused = false;
      continue;
    }
    auto [fault, socket] = co_await acceptor.async_accept(kAwait);
    if (fault == asio::error::operation_aborted) co_return;
    refused = static_cast<bool>(fault);
    if (fault) continue;
    ++open;
    asio::co_spawn(io, serve(std::move(socket)), [this](std::exception_ptr) { --open; });
  }
}

asio::awaitable<void> TlsFront::State::serve(tcp::socket socket) {
  const Result<TlsContext> context = folder.server(!settings.client.empty());
  if (!context.ok()) {
    log::warn("TLS: {}", context.error().message);
    co_return;
  }
  boost::system::error_code ignored;
  socket.set_option(tcp::no_delay(true), ignored);
  auto relay = std::make_shared<Relay>(std::move(socket), *context);
  asio::steady_timer patience(io, kHandshake);
  patience.async_wait([relay](boost::system::error_code over) {
    if (!over) relay->close();
  });
  const auto [fault] =
      co_await relay->outer.async_handshake(asio::ssl::stream_base::server, kAwait);
  patience.cancel();
  if (fault) co_return;
  if (!settings.client.empty() &&
      peer_common_name(relay->outer.native_handle()) != settings.client) {
    log::warn("TLS: a caller that is not {} is turned away", settings.client);
    relay->close();
    co_return;
  }
  const auto [absent] = co_await relay->inner.async_connect(Local::endpoint(settings.to), kAwait);
  if (absent) {
    relay->close();
    co_return;
  }
  asio::co_spawn(io, carry(relay, relay->inner, relay->outer), asio::detached);
  co_await carry(relay, relay->outer, relay->inner);
}

TlsFront::TlsFront(Fd listening, TlsFrontSettings settings)
    : state_(std::make_unique<State>(std::move(listening), std::move(settings))) {
  asio::co_spawn(state_->io, state_->accept_all(), asio::detached);
  state_->thread = std::thread([s = state_.get()] { s->io.run(); });
}

TlsFront::~TlsFront() {
  state_->io.stop();
  state_->thread.join();
}

}  // namespace sluice::wire
