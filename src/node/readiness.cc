#include "node/readiness.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/local/stream_protocol.hpp>
#include <boost/asio/this_coro.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/http/empty_body.hpp>
#include <boost/beast/http/read.hpp>
#include <boost/beast/http/write.hpp>
#include <cstdio>
#include <fstream>
#include <set>
#include <string>

#include "process/channel.h"
#include "wire/http/await.h"
#include "wire/http/http_stream.h"

namespace sluice::node {
namespace {

using wire::kAwait;
namespace http = boost::beast::http;

constexpr Nanos kShortestPause = Millis(10);
constexpr Nanos kLongestPause = Millis(500);
constexpr Nanos kProbePatience = Seconds(5);

asio::generic::stream_protocol::endpoint address_of(const Probe& probe) {
  const wire::Endpoint& at = probe.at;
  if (!at.path.empty()) return asio::local::stream_protocol::endpoint(at.path);
  if (probe.where == Probe::Where::kHere)
    return asio::ip::tcp::endpoint(asio::ip::address_v4::loopback(), at.port);
  boost::system::error_code invalid;  // an address of zeros then, which refuses
  return asio::ip::tcp::endpoint(asio::ip::make_address(at.host, invalid), at.port);
}

Error lacks(const std::string& what) {
  return {ErrorKind::kUnavailable, what};
}

// Whether a listening socket with this local address, as the kernel's tables have it, may get what
// is sent to 127.0.0.1: proc(5), /proc/net/tcp. An address of IPv6 may get what is mapped into it.
bool covers_loopback(std::string_view address) {
  constexpr std::string_view kLoopback = "0100007F", kMapped = "0000000000000000FFFF00000100007F";
  return address == kLoopback || address == kMapped ||
         address.find_first_not_of('0') == address.npos;
}

// Returns whose sockets may have accepted a connection to 127.0.0.1 at the port.
std::set<uid_t> listeners_at(unsigned port) {
  constexpr unsigned kListens = 0x0A;
  std::set<uid_t> uids;
  for (const char* table : {"/proc/net/tcp", "/proc/net/tcp6"}) {
    std::ifstream file(table);
    for (std::string line; std::getline(file, line);) {
      char address[33] = "";
      unsigned at = 0, state = 0, uid = 0;
      if (std::sscanf(line.c_str(), "%*d: %32[0-9A-F]:%X %*s %X %*s %*s %*s %u", address, &at,
                      &state, &uid) == 4 &&
          at == port && state == kListens && covers_loopback(address))
        uids.insert(uid);
    }
  }
  return uids;
}

// Another process may have bound the port before the program did.
bool is_anothers(const Probe& probe) {
  if (!probe.at.path.empty() || probe.where == Probe::Where::kElsewhere) return false;
  const uid_t own = probe.uid != 0 ? probe.uid : geteuid();
  return listeners_at(probe.at.port) != std::set<uid_t>{own};
}

}  // namespace

asio::awaitable<Result<void>> probe_once(Probe probe, Nanos patience) {
  wire::Stream stream{asio::any_io_executor(co_await asio::this_coro::executor)};
  stream.expires_after(patience);
  const auto [refused] = co_await stream.async_connect(address_of(probe), kAwait);
  if (refused) co_return lacks("does not listen: " + refused.message());
  if (is_anothers(probe)) co_return lacks("is a port at which another program listens");
  if (probe.path.empty()) co_return Result<void>();
  const std::string get = "GET " + probe.path;
  http::request<http::empty_body> request(http::verb::get, probe.path, 11);
  request.set(http::field::host, "localhost");
  request.set(http::field::connection, "close");
  if (const auto [fault, n] = co_await http::async_write(stream, request, kAwait); fault)
    co_return lacks(get + ": " + fault.message());
  boost::beast::flat_buffer buffer;
  http::response_parser<http::empty_body> answer;
  if (const auto [fault, n] = co_await http::async_read_header(stream, buffer, answer, kAwait);
      fault)
    co_return lacks(get + ": " + fault.message());
  const unsigned status = answer.get().result_int();
  if (status / 100 != 2) co_return lacks(get + ": is answered " + std::to_string(status));
  co_return Result<void>();
}

asio::awaitable<Result<void>> ready_within(asio::io_context& io, const Clock& clock, Probe probe,
                                           int pidfd, Nanos patience) {
  const Fd process(fcntl(pidfd, F_DUPFD_CLOEXEC, 0));  // the owner's may be closed meanwhile
  const Time begin = clock.now(), give_up = begin + patience;
  for (;;) {
    const Result<void> ready = co_await probe_once(probe, kProbePatience);
    if (ready.ok()) co_return ready;
    if (clock.now() >= give_up)
      co_return Error{ErrorKind::kTimeout,
                      "was not ready within " + std::to_string(patience / Seconds(1)) +
                          " s: " + to_string(probe.at) + " " + ready.error().message};
    // A thirtieth of its start so far: so much later than it is ready it is found to be, at most.
    const Nanos pause = std::clamp((clock.now() - begin) / 30, kShortestPause, kLongestPause);
    if (co_await ends_within(io, process.get(), pause))
      co_return Error{ErrorKind::kUnavailable, "ended before it was ready"};
  }
}

}  // namespace sluice::node
