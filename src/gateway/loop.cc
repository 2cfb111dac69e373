#include "gateway/loop.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include <algorithm>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/local/stream_protocol.hpp>
#include <boost/asio/post.hpp>

#include "wire/http/http.h"

namespace sluice::gateway {
namespace {

constexpr size_t kMostKept = 256;  // per instance; more are closed
constexpr Nanos kSweep = Millis(20);
constexpr Nanos kCloseStale = Seconds(1);
constexpr Nanos kSilentMachine = Seconds(3);
constexpr size_t kScratch = 128 * 1024;  // measured: stays in the second-level cache, few calls

// Returns whether the instance closed it, or sent something unasked: it cannot be used again.
bool stale(Socket& socket) {
  char byte;
  const ssize_t n = ::recv(socket.native_handle(), &byte, 1, MSG_PEEK | MSG_DONTWAIT);
  return n >= 0 || (errno != EAGAIN && errno != EWOULDBLOCK);
}

void set(Socket& socket, int level, int option, int value) {
  (void)::setsockopt(socket.native_handle(), level, option, &value, sizeof value);
}

// A machine that is cut off closes no connection. Its kernel would have confirmed what was sent,
// or that the connection is there, however busy the instance is.
void give_up_if_silent(Socket& socket) {
  constexpr int kSilent = kSilentMachine / Seconds(1);
  set(socket, IPPROTO_TCP, TCP_USER_TIMEOUT, kSilent * 1000);
  set(socket, IPPROTO_TCP, TCP_KEEPIDLE, 1);
  set(socket, IPPROTO_TCP, TCP_KEEPINTVL, 1);
  set(socket, IPPROTO_TCP, TCP_KEEPCNT, kSilent);
  set(socket, SOL_SOCKET, SO_KEEPALIVE, 1);
}

}  // namespace

std::unique_ptr<char[]> BodyRooms::take() {
  if (out_ >= most_out_) return nullptr;
  ++out_;
  if (spare_.empty()) return std::make_unique_for_overwrite<char[]>(kSize);
  std::unique_ptr<char[]> room = std::move(spare_.back());
  spare_.pop_back();
  return room;
}

void BodyRooms::give(std::unique_ptr<char[]> room) {
  if (!room) return;
  --out_;
  if (spare_.size() < kMostSpare) spare_.push_back(std::move(room));
}

Loop::Loop(Dispatcher& dispatcher, const Clock& clock, uint64_t seed, LoopLimits limits)
    : dispatcher(dispatcher),
      clock(clock),
      bodies(limits.body_rooms),
      limits_(limits),
      scratch_(kScratch),
      random_(seed) {}

// ---- sessions ----------------------------------------------------------------------------------

Loop::Sessions* Loop::of(Watch::List list) {
  switch (list) {
    case Watch::List::kNone:
      return nullptr;
    case Watch::List::kBusy:
      return &busy_;
    case Watch::List::kIdle:
      return &idle_;
    case Watch::List::kSlow:
      return &slow_;
  }
  return nullptr;
}

void Loop::put(Watch& session, Watch::List list) {
  if (Sessions* from = of(session.list)) from->erase(from->iterator_to(session));
  if (session.list == Watch::List::kSlow)
    if (--slow_of_peer_[session.peer] == 0) slow_of_peer_.erase(session.peer);
  session.list = list;
  if (Sessions* to = of(list)) to->push_back(session);
  if (list != Watch::List::kSlow) return;
  ++slow_of_peer_[session.peer];
  bound_slow(session.peer);
}

void Loop::give_up(Watch& session) {
  put(session, Watch::List::kBusy);
  session.close();
}

void Loop::bound_slow(uint64_t peer) {
  if (peer != 0 && slow_of_peer_[peer] > limits_.slow_of_peer)
    give_up(*std::ranges::find(slow_, peer, &Watch::peer));
  else if (slow_.size() > limits_.slow)
    give_up(slow_.front());
}

bool Loop::make_room() {
  Sessions& from = idle_.empty() ? slow_ : idle_;
  if (from.empty()) return false;
  give_up(from.front());
  return true;
}

Awaitable<void> Loop::wait_for_iteration(const Watch& session, Timer& bell) {
  Pipelined mine{bell};
  if (!calling_) asio::post(io, [this] { call_next_pipelined(); });
  calling_ = true;
  const auto place = pipelined_.insert(pipelined_.end(), &mine);
  while (!mine.called && !session.gone && !session.expired) {
    bell.expires_at(Timer::time_point::max());
    co_await bell.async_wait(kAwait);
  }
  pipelined_.erase(place);
}

// Calls the first session that has not been called; it leaves the list when it runs.
void Loop::call_next_pipelined() {
  const auto next = std::ranges::find(pipelined_, false, &Pipelined::called);
  calling_ = next != pipelined_.end();
  if (!calling_) return;
  (*next)->called = true;
  (*next)->bell.cancel();
  asio::post(io, [this] { call_next_pipelined(); });
}

// ---- what sessions share -----------------------------------------------------------------------

std::unique_ptr<Connection> Loop::kept(const std::string& socket) {
  const auto found = kept_.find(socket);
  if (found == kept_.end() || found->second.empty()) return nullptr;
  std::unique_ptr<Connection> newest = std::move(found->second.back());
  found->second.pop_back();
  return newest;
}

void Loop::keep(const std::string& socket, std::unique_ptr<Connection> connection) {
  auto& list = kept_[socket];
  if (list.size() < kMostKept && connection->buffer.size() == 0)
    list.push_back(std::move(connection));
}

// Connections of an ended instance would stay: no request asks for them again.
void Loop::close_stale() {
  for (auto& [socket, list] : kept_)
    std::erase_if(list, [](const auto& c) { return stale(c->stream->socket()); });
  std::erase_if(kept_, [](const auto& entry) { return entry.second.empty(); });
}

std::unique_ptr<Connection> Loop::unconnected() {
  return std::make_unique<Connection>(std::make_unique<PlainStream>(Socket(io)));
}

Awaitable<error_code> Loop::connect(Connection& connection, const std::string& socket) {
  const Result<wire::Endpoint> at = wire::parse_endpoint(socket);
  if (!at.ok()) co_return asio::error::invalid_argument;
  error_code fault;
  asio::generic::stream_protocol::endpoint to;
  if (!at->path.empty()) {
    to = asio::local::stream_protocol::endpoint(at->path);
  } else {
    const auto ip = asio::ip::make_address(at->host, fault);
    if (fault) co_return fault;
    to = asio::ip::tcp::endpoint(ip, at->port);
  }
  Socket& s = connection.stream->socket();
  s.open(to.protocol(), fault);
  if (fault) co_return fault;
  if (at->path.empty()) give_up_if_silent(s);
  std::tie(fault) = co_await s.async_connect(to, kAwait);
  if (!fault && at->path.empty()) s.set_option(asio::ip::tcp::no_delay(true), fault);
  co_return fault;
}

void Loop::put_id(std::string& out, int digits) {
  while (digits > 0) {
    uint64_t bits = random_.next();
    for (int i = 0; i < 16 && digits > 0; ++i, --digits, bits >>= 4)
      out += "0123456789abcdef"[bits & 15];
  }
}

// The idle list is in order of deadlines, so the sweep ends at the first that is not overdue.
void Loop::sweep(Time now) {
  for (Sessions* list : {&busy_, &slow_})
    for (Watch& session : *list) session.sweep(now);  // marks and cancels; moves none
  for (Watch& session : idle_) {
    if (session.deadline > now && !stopping_) break;
    session.sweep(now);
  }
}

Awaitable<void> Loop::sweep_all() {
  Timer timer(io);
  Time stale_at = clock.now() + kCloseStale;
  while (!stopping_ || sessions() > 0) {
    timer.expires_after(kSweep);
    co_await timer.async_wait(kAwait);
    const Time now = clock.now();
    sweep(now);
    dispatcher.tick(now);
    if (now < stale_at) continue;
    stale_at = now + kCloseStale;
    close_stale();
  }
}

}  // namespace sluice::gateway
