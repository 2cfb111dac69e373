#include "enforce/permit_server.h"

#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <utility>

#include "base/check.h"
#include "base/epoll.h"
#include "process/local_socket.h"

namespace sluice::node {
namespace {

constexpr uint64_t kListener = 0, kStop = 1, kDeaths = 2;  // connections are numbered from 3
constexpr Nanos kHelloWithin = Seconds(1);
constexpr Nanos kLookUp = Millis(500);      // at most this long between polls
constexpr Nanos kAnswerAgain = Millis(10);  // of questions that wait for the device
constexpr uint32_t kRetryUnknownMs = 1000;  // no slice yet: it may be registered soon
constexpr char kUncounted[] = "its memory is not counted here";

template <class M>
void send_message(int socket, const M& message, std::span<const int> fds = {}) {
  iovec data{.iov_base = const_cast<M*>(&message), .iov_len = sizeof message};
  alignas(cmsghdr) std::array<std::byte, CMSG_SPACE(3 * sizeof(int))> control{};
  msghdr m{};
  m.msg_iov = &data;
  m.msg_iovlen = 1;
  if (!fds.empty()) {
    m.msg_control = control.data();
    m.msg_controllen = CMSG_SPACE(fds.size_bytes());
    cmsghdr* c = CMSG_FIRSTHDR(&m);
    c->cmsg_level = SOL_SOCKET;
    c->cmsg_type = SCM_RIGHTS;
    c->cmsg_len = CMSG_LEN(fds.size_bytes());
    std::memcpy(CMSG_DATA(c), fds.data(), fds.size_bytes());
  }
  // A peer that does not read has buffer for this one message; epoll reports one that is gone.
  (void)!sendmsg(socket, &m, MSG_DONTWAIT | MSG_NOSIGNAL);
}

// Returns false, so that the connection ends.
bool refuse(int socket, sluice_refusal reason, const std::string& text, uint32_t retry_ms = 1000) {
  sluice_refused answer{};
  answer.head = {SLUICE_HELLO_MAGIC, SLUICE_WIRE_VERSION, SLUICE_REFUSED};
  answer.reason = reason;
  answer.retry_ms = retry_ms;
  std::strncpy(answer.text, text.c_str(), sizeof answer.text - 1);
  send_message(socket, answer);
  return false;
}

sluice_refusal reason_for(ErrorKind kind) {
  switch (kind) {
    case ErrorKind::kDenied:
      return SLUICE_REFUSED_IDENTITY;
    case ErrorKind::kInvalid:
      return SLUICE_REFUSED_DEVICE;
    case ErrorKind::kNotFound:
      return SLUICE_REFUSED_UNKNOWN;
    default:
      return SLUICE_REFUSED_BUSY;
  }
}

// A longer message is a newer client's: its known part is enough.
template <class M>
ClientMessage whole(std::span<const std::byte> bytes) {
  M message{};
  if (bytes.size() < sizeof message) return SLUICE_REFUSED_MALFORMED;
  std::memcpy(&message, bytes.data(), sizeof message);
  return message;
}

Bytes amount(uint64_t claim) {
  return static_cast<Bytes>(std::min<uint64_t>(claim, kMostMemory));
}

}  // namespace

ClientMessage parse_message(std::span<const std::byte> bytes) {
  sluice_message head{};
  if (bytes.size() < sizeof head) return SLUICE_REFUSED_MALFORMED;
  std::memcpy(&head, bytes.data(), sizeof head);
  if (head.magic != SLUICE_HELLO_MAGIC) return SLUICE_REFUSED_MALFORMED;
  const ClientMessage message = [&]() -> ClientMessage {
    switch (head.type) {
      case SLUICE_HELLO:
        return whole<sluice_hello>(bytes);
      case SLUICE_MEMORY_HELLO:
        return whole<sluice_memory_hello>(bytes);
      case SLUICE_HOLD:
        return whole<sluice_hold>(bytes);
      case SLUICE_MEMORY_LOOK:
        return whole<sluice_memory_look>(bytes);
      default:
        return SLUICE_REFUSED_MALFORMED;
    }
  }();
  if (std::holds_alternative<sluice_refusal>(message)) return message;
  if (head.version < SLUICE_WIRE_VERSION_MIN || head.version > SLUICE_WIRE_VERSION)
    return SLUICE_REFUSED_VERSION;
  return message;
}

Result<std::unique_ptr<PermitServer>> PermitServer::start(const PermitServerConfig& config,
                                                          const Clock& clock, Lookup lookup,
                                                          MemoryBroker* memory) {
  SLUICE_ASSIGN(listener, listen_at(config.path, "permit socket"));
  return std::unique_ptr<PermitServer>(
      new PermitServer(config, clock, std::move(lookup), memory, std::move(listener)));
}

PermitServer::PermitServer(const PermitServerConfig& config, const Clock& clock, Lookup lookup,
                           MemoryBroker* memory, Fd listener)
    : config_(config),
      clock_(clock),
      lookup_(std::move(lookup)),
      memory_(memory),
      epoll_(epoll_create1(EPOLL_CLOEXEC)),
      stop_(eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC)) {
  SLUICE_CHECK(epoll_.valid() && stop_.valid(), "out of descriptors");
  SLUICE_CHECK(epoll_hear(epoll_, listener.get(), kListener).ok() &&
                   epoll_hear(epoll_, stop_.get(), kStop).ok() &&
                   (memory_ == nullptr || epoll_hear(epoll_, memory_->deaths(), kDeaths).ok()),
               "out of watches");
  listeners_[kListener] = {.socket = std::move(listener), .slice = "", .path = config_.path};
  thread_ = std::thread([this] { run(); });
}

PermitServer::~PermitServer() {
  eventfd_write(stop_.get(), 1);
  thread_.join();
}

Result<void> PermitServer::open_for(const std::string& slice, const std::string& path) {
  SLUICE_ASSIGN(socket, listen_at(path, "permit socket"));
  const std::lock_guard lock(mutex_);
  const uint64_t id = ++last_listener_;
  SLUICE_TRY(epoll_hear(epoll_, socket.get(), id));
  listeners_[id] = {.socket = std::move(socket), .slice = slice, .path = path};
  return {};
}

void PermitServer::close_for(const std::string& slice) {
  const std::lock_guard lock(mutex_);
  std::erase_if(listeners_, [&](const auto& entry) {
    const Listener& listener = entry.second;
    return listener.slice == slice && (unlink(listener.path.c_str()), true);
  });
}

void PermitServer::run() {
  for (;;) {
    std::array<epoll_event, 64> events;
    const auto pause = static_cast<int>((waiting_.empty() ? kLookUp : kAnswerAgain) / Millis(1));
    const int n = epoll_wait(epoll_.get(), events.data(), events.size(), pause);
    for (int i = 0; i < n; ++i) {
      const uint64_t id = events[i].data.u64;
      if (id == kStop) return;
      if (id == kListener || id >= kFirstListener) {
        accept_at(id);
      } else if (id == kDeaths) {
        memory_->reap();
      } else {
        on_message(id);
      }
    }
    const Time now = clock_.now();
    close_silent(now);
    if (now >= hear_again_) hear_listeners(true);
    if (memory_ != nullptr && now >= hear_devices_) {
      memory_->hear_devices();
      hear_devices_ = now + kLookUp;
    }
    answer_waiting();
  }
}

// Accepts the connections that wait at one listener.
void PermitServer::accept_at(uint64_t id) {
  bool accepted = true;
  {
    const std::lock_guard lock(mutex_);
    const auto listener = listeners_.find(id);
    if (listener != listeners_.end()) accepted = accept_all(listener->second);
  }
  if (!accepted) hear_listeners(false);
}

// Returns false if a waiting connection cannot be accepted now, for lack of descriptors or memory.
bool PermitServer::accept_all(const Listener& listener) {
  for (;;) {
    Fd socket(accept4(listener.socket.get(), nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC));
    if (!socket.valid()) return errno == EAGAIN || errno == EINTR || errno == ECONNABORTED;
    const pid_t peer = peer_pid(socket.get());
    if (!has_room_for(peer, listener.slice)) {
      refuse(socket.get(), SLUICE_REFUSED_BUSY, "too many connections");
      continue;
    }
    const uint64_t id = ++last_id_;
    if (const Result<void> heard = epoll_hear(epoll_, socket.get(), id); !heard.ok()) {
      refuse(socket.get(), SLUICE_REFUSED_BUSY, heard.error().message);
      continue;
    }
    connections_[id] = {
        .socket = std::move(socket), .slice = listener.slice, .peer = peer, .opened = clock_.now()};
  }
}

// A waiting connection that cannot be accepted would wake the thread for ever: it waits for the
// next poll.
void PermitServer::hear_listeners(bool hear) {
  const std::lock_guard lock(mutex_);
  for (const auto& [id, listener] : listeners_) {
    epoll_event event{.events = hear ? EPOLLIN : 0u, .data = {.u64 = id}};
    epoll_ctl(epoll_.get(), EPOLL_CTL_MOD, listener.socket.get(), &event);
  }
  hear_again_ = hear ? Time::max() : clock_.now() + kLookUp;
}

bool PermitServer::has_room_for(pid_t peer, const std::string& slice) const {
  const auto same = [&](const auto& entry) {
    return entry.second.peer == peer && (peer != 0 || entry.second.slice == slice);
  };
  const int most = peer != 0 ? config_.max_connections_per_process : config_.max_unseen_connections;
  return static_cast<int>(connections_.size()) < config_.max_connections &&
         std::count_if(connections_.begin(), connections_.end(), same) < most;
}

void PermitServer::on_message(uint64_t id) {
  const auto at = connections_.find(id);
  if (at == connections_.end()) return;
  Connection& connection = at->second;
  std::array<std::byte, 256> bytes;
  const ssize_t n = recv(connection.socket.get(), bytes.data(), bytes.size(), MSG_DONTWAIT);
  if (n < 0 && (errno == EAGAIN || errno == EINTR)) return;
  if (n <= 0 || !answer(connection, std::span(bytes).first(static_cast<size_t>(n))))
    close(id);
  else if (connection.asked)
    waiting_.insert(id);
}

// Takes one HELLO, then nothing; or one MEMORY_HELLO, then HOLDs; or one LOOK. Returns whether the
// connection stays.
bool PermitServer::answer(Connection& connection, std::span<const std::byte> bytes) {
  if (connection.host != nullptr) return false;
  const int socket = connection.socket.get();
  const ClientMessage message = parse_message(bytes);
  if (const auto* hold = std::get_if<sluice_hold>(&message)) {
    if (connection.holder == 0 || connection.asked) return false;
    connection.asked = *hold;
    return answer_hold(connection);
  }
  if (connection.holder != 0) return false;
  if (const auto* hello = std::get_if<sluice_hello>(&message)) return greet(connection, *hello);
  if (const auto* hello = std::get_if<sluice_memory_hello>(&message))
    return greet(connection, *hello);
  if (const auto* look = std::get_if<sluice_memory_look>(&message)) return greet(connection, *look);
  const sluice_refusal refusal = std::get<sluice_refusal>(message);
  refuse(socket, refusal,
         refusal == SLUICE_REFUSED_VERSION ? "this daemon serves other versions" : "malformed");
  return false;
}

// Returns the process at the other end and where it belongs; nothing after refusing it.
std::optional<PermitServer::Caller> PermitServer::identify(const Connection& connection,
                                                           uint32_t device) {
  const int socket = connection.socket.get();
  Result<Peer> peer = identify_peer(socket);
  if (connection.peer == 0 && !connection.slice.empty()) peer = identify_unseen_peer(socket);
  if (!peer) {
    refuse(socket, SLUICE_REFUSED_IDENTITY, peer.error().message);
    return std::nullopt;
  }
  peer->slice = connection.slice;
  const Result<Placement> place = lookup_(*peer, device);
  if (!place) {
    refuse(socket, reason_for(place.error().kind), place.error().message, kRetryUnknownMs);
    return std::nullopt;
  }
  return Caller{std::move(*peer), *place};
}

bool PermitServer::greet(Connection& connection, const sluice_hello& hello) {
  const int socket = connection.socket.get();
  std::optional<Caller> caller = identify(connection, hello.device);
  if (!caller) return false;
  Result<Attachment> attached =
      caller->place.host->attach(caller->place.client, caller->peer.process,
                                 std::move(caller->peer.pidfd), hello.head.version);
  if (!attached) return refuse(socket, reason_for(attached.error().kind), attached.error().message);
  SLUICE_STEP("serve: attached");
  connection.host = caller->place.host;
  connection.process = attached->number;

  sluice_welcome welcome{};
  welcome.head = {SLUICE_HELLO_MAGIC, hello.head.version, SLUICE_WELCOME};
  welcome.generation = config_.generation;
  const std::array fds{attached->pages.permit.get(), attached->pages.usage.get(),
                       attached->bell.get()};
  send_message(socket, welcome, fds);
  SLUICE_STEP("serve: welcomed");
  return true;
}

bool PermitServer::greet(Connection& connection, const sluice_memory_hello& hello) {
  const int socket = connection.socket.get();
  std::optional<Caller> caller = identify(connection, hello.device);
  if (!caller) return false;
  if (memory_ == nullptr || caller->place.memory == 0)
    return refuse(socket, SLUICE_REFUSED_UNKNOWN, kUncounted);
  const Result<MemoryBroker::Joined> joined =
      memory_->join(caller->place.memory, caller->peer.process, std::move(caller->peer.pidfd),
                    amount(hello.used));
  if (!joined) return refuse(socket, reason_for(joined.error().kind), joined.error().message);
  connection.holder = joined->holder;

  sluice_memory_welcome welcome{};
  welcome.head = {SLUICE_HELLO_MAGIC, hello.head.version, SLUICE_MEMORY_WELCOME};
  welcome.generation = config_.generation;
  welcome.held = static_cast<uint64_t>(joined->held);
  const std::array fds{joined->page.get()};
  send_message(socket, welcome, fds);
  return true;
}

bool PermitServer::greet(Connection& connection, const sluice_memory_look& look) {
  const std::optional<Caller> caller = identify(connection, look.device);
  if (!caller) return false;
  const MemoryAccount account = caller->place.memory;
  if (memory_ == nullptr || account == 0)
    return refuse(connection.socket.get(), SLUICE_REFUSED_UNKNOWN, kUncounted);
  const MemoryLedger::Account has = memory_->look(account);
  const std::vector<pid_t> holders = memory_->processes(account);
  sluice_memory_seen seen{};
  seen.head = {SLUICE_HELLO_MAGIC, look.head.version, SLUICE_MEMORY_SEEN};
  seen.generation = config_.generation;
  seen.limit = static_cast<uint64_t>(has.limit);
  seen.held = static_cast<uint64_t>(has.held);
  seen.processes = static_cast<uint32_t>(std::min(holders.size(), std::size(seen.pids)));
  std::copy_n(holders.begin(), seen.processes, seen.pids);  // 0: not visible here
  send_message(connection.socket.get(), seen);
  return false;  // the answer is complete
}

bool PermitServer::answer_hold(Connection& connection) {
  if (!memory_->may_answer(connection.holder)) return true;
  const sluice_hold hold = *std::exchange(connection.asked, std::nullopt);
  const std::optional<Bytes> now =
      memory_->hold(connection.holder, amount(hold.least), amount(hold.most));
  if (!now) return false;
  sluice_held held{};
  held.head = {SLUICE_HELLO_MAGIC, hold.head.version, SLUICE_HELD};
  held.request = hold.request;
  held.held = static_cast<uint64_t>(*now);
  send_message(connection.socket.get(), held);
  return true;
}

void PermitServer::answer_waiting() {
  for (const uint64_t id : std::set(waiting_)) {
    Connection& connection = connections_.at(id);
    if (!answer_hold(connection))
      close(id);
    else if (!connection.asked)
      waiting_.erase(id);
  }
}

void PermitServer::close(uint64_t id) {
  const auto at = connections_.find(id);
  waiting_.erase(id);
  if (at->second.host != nullptr) at->second.host->detach(at->second.process);
  connections_.erase(at);
}

void PermitServer::close_silent(Time now) {
  std::erase_if(connections_, [&](const auto& entry) {
    return entry.second.host == nullptr && entry.second.holder == 0 &&
           now - entry.second.opened > kHelloWithin;
  });
}

}  // namespace sluice::node
