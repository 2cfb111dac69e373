#include "node/permit_server.h"

#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <system_error>

namespace sluice::node {
namespace {

constexpr uint64_t kListener = 0, kStop = 1;  // connections are numbered from 2
constexpr Nanos kHelloWithin = Seconds(1);
constexpr uint32_t kRetryUnknownMs = 1000;  // no slice yet: perhaps it is being registered

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
  // A peer that does not read has room for this one message; one that has gone is seen by epoll.
  (void)!sendmsg(socket, &m, MSG_DONTWAIT | MSG_NOSIGNAL);
}

void refuse(int socket, sluice_refusal reason, const std::string& text, uint32_t retry_ms = 1000) {
  sluice_refused answer{};
  answer.head = {SLUICE_HELLO_MAGIC, SLUICE_WIRE_VERSION, SLUICE_REFUSED};
  answer.reason = reason;
  answer.retry_ms = retry_ms;
  std::strncpy(answer.text, text.c_str(), sizeof answer.text - 1);
  send_message(socket, answer);
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

Result<Fd> listen_at(const std::string& path) {
  sockaddr_un at{};
  at.sun_family = AF_UNIX;
  if (path.empty() || path.size() >= sizeof at.sun_path)
    return Error{ErrorKind::kInvalid, "permit socket: path \"" + path + "\" must have 1 … " +
                                          std::to_string(sizeof at.sun_path - 1) + " bytes"};
  path.copy(at.sun_path, path.size());
  Fd fd(socket(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  unlink(path.c_str());
  if (!fd.valid() || bind(fd.get(), reinterpret_cast<sockaddr*>(&at), sizeof at) != 0 ||
      chmod(path.c_str(), 0666) != 0 || listen(fd.get(), 128) != 0) {
    return Error{ErrorKind::kInternal,
                 "permit socket: " + path + ": " + std::system_category().message(errno)};
  }
  return fd;
}

}  // namespace

std::variant<sluice_hello, sluice_refusal> parse_hello(std::span<const std::byte> bytes) {
  sluice_hello hello{};
  if (bytes.size() < sizeof hello) return SLUICE_REFUSED_MALFORMED;  // longer: a newer client's
  std::memcpy(&hello, bytes.data(), sizeof hello);
  if (hello.head.magic != SLUICE_HELLO_MAGIC || hello.head.type != SLUICE_HELLO)
    return SLUICE_REFUSED_MALFORMED;
  if (hello.head.version < SLUICE_WIRE_VERSION_MIN || hello.head.version > SLUICE_WIRE_VERSION)
    return SLUICE_REFUSED_VERSION;
  return hello;
}

Result<std::unique_ptr<PermitServer>> PermitServer::start(const PermitServerConfig& config,
                                                          const Clock& clock, Lookup lookup) {
  SLUICE_ASSIGN(listener, listen_at(config.path));
  return std::unique_ptr<PermitServer>(
      new PermitServer(config, clock, std::move(lookup), std::move(listener)));
}

PermitServer::PermitServer(const PermitServerConfig& config, const Clock& clock, Lookup lookup,
                           Fd listener)
    : config_(config),
      clock_(clock),
      lookup_(std::move(lookup)),
      listener_(std::move(listener)),
      epoll_(epoll_create1(EPOLL_CLOEXEC)),
      stop_(eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC)) {
  SLUICE_CHECK(epoll_.valid() && stop_.valid(), "out of descriptors");
  watch(listener_.get(), kListener);
  watch(stop_.get(), kStop);
  thread_ = std::thread([this] { run(); });
}

PermitServer::~PermitServer() {
  eventfd_write(stop_.get(), 1);
  thread_.join();
}

void PermitServer::watch(int fd, uint64_t id) {
  epoll_event event{.events = EPOLLIN, .data = {.u64 = id}};
  SLUICE_CHECK(epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, fd, &event) == 0, "epoll_ctl");
}

void PermitServer::run() {
  constexpr int kLookUpMs = 500;
  for (;;) {
    std::array<epoll_event, 64> events;
    const int n = epoll_wait(epoll_.get(), events.data(), events.size(), kLookUpMs);
    for (int i = 0; i < n; ++i) {
      const uint64_t id = events[i].data.u64;
      if (id == kStop) return;
      if (id == kListener) {
        accept_all();
      } else {
        on_message(id);
      }
    }
    close_silent(clock_.now());
  }
}

void PermitServer::accept_all() {
  for (;;) {
    Fd socket(accept4(listener_.get(), nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC));
    if (!socket.valid()) return;
    const pid_t peer = peer_pid(socket.get());
    if (!has_room_for(peer)) {
      refuse(socket.get(), SLUICE_REFUSED_BUSY, "too many connections");
      continue;
    }
    const uint64_t id = ++last_id_;
    watch(socket.get(), id);
    connections_[id] = {.socket = std::move(socket), .peer = peer, .opened = clock_.now()};
  }
}

bool PermitServer::has_room_for(pid_t peer) const {
  const auto same = [peer](const auto& entry) { return entry.second.peer == peer; };
  return static_cast<int>(connections_.size()) < config_.max_connections &&
         std::count_if(connections_.begin(), connections_.end(), same) <
             config_.max_connections_per_process;
}

// One HELLO, then nothing: whatever else arrives, the end included, ends the connection.
void PermitServer::on_message(uint64_t id) {
  const auto at = connections_.find(id);
  if (at == connections_.end()) return;
  Connection& connection = at->second;
  std::array<std::byte, 256> bytes;
  const ssize_t n = recv(connection.socket.get(), bytes.data(), bytes.size(), MSG_DONTWAIT);
  if (n < 0 && (errno == EAGAIN || errno == EINTR)) return;
  if (n <= 0 || connection.host != nullptr) return close(id);
  const auto message = parse_hello(std::span(bytes).first(static_cast<size_t>(n)));
  if (const auto* refusal = std::get_if<sluice_refusal>(&message)) {
    refuse(connection.socket.get(), *refusal,
           *refusal == SLUICE_REFUSED_VERSION ? "this daemon serves other versions" : "malformed");
    return close(id);
  }
  greet(connection, std::get<sluice_hello>(message));
  if (connection.host == nullptr) close(id);
}

void PermitServer::greet(Connection& connection, const sluice_hello& hello) {
  const int socket = connection.socket.get();
  Result<Peer> peer = identify_peer(socket);
  if (!peer) return refuse(socket, SLUICE_REFUSED_IDENTITY, peer.error().message);
  const Result<Placement> place = lookup_(*peer, hello.device);
  if (!place)
    return refuse(socket, reason_for(place.error().kind), place.error().message, kRetryUnknownMs);
  Result<Attachment> attached =
      place->host->attach(place->client, peer->process, std::move(peer->pidfd));
  if (!attached) return refuse(socket, reason_for(attached.error().kind), attached.error().message);
  connection.host = place->host;
  connection.process = attached->number;

  sluice_welcome welcome{};
  welcome.head = {SLUICE_HELLO_MAGIC, hello.head.version, SLUICE_WELCOME};
  welcome.generation = config_.generation;
  const std::array fds{attached->pages.permit.get(), attached->pages.usage.get(),
                       attached->bell.get()};
  send_message(socket, welcome, fds);
}

void PermitServer::close(uint64_t id) {
  const auto at = connections_.find(id);
  if (at->second.host != nullptr) at->second.host->detach(at->second.process);
  connections_.erase(at);
}

void PermitServer::close_silent(Time now) {
  std::erase_if(connections_, [&](const auto& entry) {
    return entry.second.host == nullptr && now - entry.second.opened > kHelloWithin;
  });
}

}  // namespace sluice::node
