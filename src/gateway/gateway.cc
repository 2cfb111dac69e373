#include "gateway/gateway.h"

#include <fcntl.h>
#include <netinet/in.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/signal_set.hpp>
#include <boost/asio/ssl/context.hpp>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <memory>
#include <random>
#include <thread>

#include "base/log.h"
#include "gateway/admin.h"

namespace sluice::gateway {
namespace {

// Returns an address, or for IPv6 the network of 64 bits that one peer has to itself.
uint64_t hash_of(const sockaddr_storage& peer) {
  if (peer.ss_family == AF_INET) {
    const auto& v4 = reinterpret_cast<const sockaddr_in&>(peer);
    return uint64_t{v4.sin_addr.s_addr} + 1;
  }
  if (peer.ss_family != AF_INET6) return 0;
  const in6_addr& v6 = reinterpret_cast<const sockaddr_in6&>(peer).sin6_addr;
  uint64_t network = 0;
  const bool mapped = IN6_IS_ADDR_V4MAPPED(&v6);  // IPv4 to a socket of both: its low half
  std::memcpy(&network, v6.s6_addr + (mapped ? 8 : 0), 8);
  return network | uint64_t{1} << 63;
}

// Raises the limit of descriptors as far as allowed; returns it.
size_t most_descriptors() {
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0) return 1024;
  limit.rlim_cur = limit.rlim_max;
  ::setrlimit(RLIMIT_NOFILE, &limit);
  ::getrlimit(RLIMIT_NOFILE, &limit);
  return limit.rlim_cur;
}

// Returns the limits of each of so many loops. A quarter of the descriptors is left for connections
// to instances.
LoopLimits part_of(LoopLimits all, size_t loops) {
  all.connections = std::min(all.connections, most_descriptors() / 4 * 3);
  all.connections = std::max<size_t>(all.connections / loops, 1);
  all.slow = std::max<size_t>(all.slow / loops, 1);
  all.slow_of_peer = std::max<size_t>(all.slow_of_peer / loops, 256);
  all.body_rooms = std::max<size_t>(all.body_rooms / loops, 32);
  return all;
}

// Accepts on one loop. All loops wait on the same socket; a free one takes the next.
class Acceptor {
 public:
  Acceptor(Loop& loop, int fd, const SessionLimits& limits, const LocalAnswers& local,
           asio::ssl::context* tls)
      : loop_(loop), listening_(loop.io), limits_(limits), local_(local), tls_(tls) {
    listening_.assign(asio::generic::stream_protocol(AF_INET, 0), ::fcntl(fd, F_DUPFD_CLOEXEC, 0));
    ::fcntl(listening_.native_handle(), F_SETFL, ::fcntl(fd, F_GETFL) | O_NONBLOCK);
  }

  Awaitable<void> run() {
    while (!loop_.stopping()) {
      const auto [fault] = co_await listening_.async_wait(Socket::wait_read, kAwait);
      if (fault || loop_.stopping()) co_return;
      if (!loop_.has_room() && !loop_.make_room()) {
        co_await pause();
        continue;
      }
      sockaddr_storage peer{};
      socklen_t size = sizeof(peer);
      const int fd = ::accept4(listening_.native_handle(), reinterpret_cast<sockaddr*>(&peer),
                               &size, SOCK_NONBLOCK | SOCK_CLOEXEC);
      Socket socket(loop_.io);
      boost::system::error_code unwatched, ignored;
      if (fd >= 0) socket.assign(asio::generic::stream_protocol(peer.ss_family, 0), fd, unwatched);
      if (fd < 0 || unwatched) {
        if (fd >= 0) ::close(fd);
        if (fd < 0 && errno != EMFILE && errno != ENFILE && errno != ENOMEM) continue;
        loop_.make_room();
        co_await pause();
        continue;
      }
      if (peer.ss_family != AF_UNIX) socket.set_option(asio::ip::tcp::no_delay(true), ignored);
      if (tls_ == nullptr)
        asio::co_spawn(loop_.io,
                       serve(loop_, std::make_unique<PlainStream>(std::move(socket)), limits_,
                             local_, hash_of(peer)),
                       asio::detached);
      else
        asio::co_spawn(loop_.io, serve_tls(std::move(socket), hash_of(peer)), asio::detached);
    }
  }

  void stop() {
    boost::system::error_code ignored;
    listening_.close(ignored);
  }

 private:
  // Waits until a connection that was given up has been closed.
  Awaitable<void> pause() {
    Timer timer(loop_.io, Millis(5));
    co_await timer.async_wait(kAwait);
  }

  Awaitable<void> serve_tls(Socket socket, uint64_t peer) {
    TlsSocket tls(std::move(socket), *tls_);
    Timer limit(loop_.io, limits_.head);
    limit.async_wait([&](boost::system::error_code fault) {
      boost::system::error_code ignored;
      if (!fault) tls.next_layer().cancel(ignored);
    });
    const auto [fault] = co_await tls.async_handshake(asio::ssl::stream_base::server, kAwait);
    limit.cancel();
    // The handler above runs or is cancelled before `tls` moves on.
    co_await asio::post(loop_.io, asio::use_awaitable_t<Executor>{});
    if (!fault)
      co_await serve(loop_, std::make_unique<TlsStream>(std::move(tls)), limits_, local_, peer);
  }

  Loop& loop_;
  Socket listening_;
  const SessionLimits& limits_;
  const LocalAnswers& local_;
  asio::ssl::context* tls_;
};

Result<std::unique_ptr<asio::ssl::context>> tls_context(const GatewayOptions& o) {
  if (o.tls_cert.empty() != o.tls_key.empty())
    return Error{ErrorKind::kInvalid, "TLS: --tls-cert and --tls-key go together"};
  if (o.tls_cert.empty()) return std::unique_ptr<asio::ssl::context>();
  auto context = std::make_unique<asio::ssl::context>(asio::ssl::context::tls_server);
  boost::system::error_code fault;
  context->set_options(asio::ssl::context::default_workarounds | asio::ssl::context::no_tlsv1 |
                       asio::ssl::context::no_tlsv1_1);
  context->use_certificate_chain_file(o.tls_cert, fault);
  if (fault) return Error{ErrorKind::kInvalid, "TLS: " + o.tls_cert + ": " + fault.message()};
  context->use_private_key_file(o.tls_key, asio::ssl::context::pem, fault);
  if (fault) return Error{ErrorKind::kInvalid, "TLS: " + o.tls_key + ": " + fault.message()};
  return context;
}

Result<std::string> platform_token(const std::string& file) {
  std::string token;
  if (file.empty()) return token;
  std::ifstream in(file);
  if (!(in >> token))
    return Error{ErrorKind::kInvalid, "token file: " + file + ": no token can be read there"};
  return token;
}

}  // namespace

Result<void> run_gateway(const GatewayOptions& o) {
  Fd listening(o.listen_fd);
  if (!listening.valid()) {
    SLUICE_ASSIGN(at, wire::parse_endpoint(o.listen));
    SLUICE_ASSIGN(fd, wire::listen_on(at));
    listening = std::move(fd);
  }
  SLUICE_ASSIGN(tls, tls_context(o));
  SLUICE_ASSIGN(token, platform_token(o.token_file));
  const SteadyClock clock;
  Dispatcher dispatcher(std::move(token));
  load_table(o.routes_file, dispatcher, clock.now());
  const LocalAnswers local(dispatcher, o.version, o.strict_readiness);

  const int cores = static_cast<int>(std::thread::hardware_concurrency());
  const int threads = o.threads > 0 ? o.threads : std::max(1, cores - 1);
  const uint64_t seed = std::random_device()();
  std::vector<std::unique_ptr<Loop>> loops;
  std::vector<std::unique_ptr<Acceptor>> acceptors;
  for (int i = 0; i < threads; ++i) {
    loops.push_back(std::make_unique<Loop>(dispatcher, clock, seed + static_cast<uint64_t>(i),
                                           part_of(o.loop_limits, static_cast<size_t>(threads))));
    acceptors.push_back(
        std::make_unique<Acceptor>(*loops.back(), listening.get(), o.limits, local, tls.get()));
    asio::co_spawn(loops.back()->io, acceptors.back()->run(), asio::detached);
    asio::co_spawn(loops.back()->io, loops.back()->sweep_all(), asio::detached);
  }
  Loop& first = *loops.front();
  std::unique_ptr<wire::HttpServer> admin;
  if (!o.admin.empty()) {
    SLUICE_ASSIGN(at, wire::parse_endpoint(o.admin));
    SLUICE_ASSIGN(fd, wire::listen_on(at));
    admin = std::make_unique<wire::HttpServer>(
        first.io, std::move(fd),
        [api = std::make_shared<AdminApi>(dispatcher, clock, o.routes_file)](wire::HttpRequest r) {
          return api->handle(std::move(r));
        });
  }
  asio::signal_set signals(first.io, SIGTERM, SIGINT);
  signals.async_wait([&](boost::system::error_code fault, int) {
    if (fault) return;
    log::info("draining");
    admin.reset();
    for (size_t i = 0; i < loops.size(); ++i)
      asio::post(loops[i]->io, [&, i] {
        acceptors[i]->stop();
        loops[i]->stop();
      });
  });
  log::info("serving on {} with {} loops", o.listen_fd >= 0 ? "an inherited socket" : o.listen,
            threads);
  std::vector<std::thread> others;
  for (size_t i = 1; i < loops.size(); ++i) others.emplace_back([&, i] { loops[i]->io.run(); });
  first.io.run();
  for (std::thread& t : others) t.join();
  log::info("drained");
  return {};
}

}  // namespace sluice::gateway
