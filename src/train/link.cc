#include "train/link.h"

#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <sys/un.h>

#include <cerrno>
#include <chrono>
#include <cstring>
#include <utility>

#include "base/system_error.h"

namespace sluice::train {
namespace {

Result<Fd> connected_to(const wire::Endpoint& at) {
  sockaddr_storage address{};
  socklen_t length = 0;
  if (!at.path.empty()) {
    auto* un = reinterpret_cast<sockaddr_un*>(&address);
    un->sun_family = AF_UNIX;
    if (at.path.size() >= sizeof un->sun_path)
      return Error{ErrorKind::kInvalid, at.path + ": is too long for a socket"};
    std::memcpy(un->sun_path, at.path.c_str(), at.path.size() + 1);
    length = sizeof *un;
  } else {
    addrinfo hints{.ai_family = AF_UNSPEC, .ai_socktype = SOCK_STREAM}, *found = nullptr;
    if (getaddrinfo(at.host.c_str(), std::to_string(at.port).c_str(), &hints, &found) != 0)
      return Error{ErrorKind::kNotFound, at.host + ": is not known"};
    std::memcpy(&address, found->ai_addr, found->ai_addrlen);
    length = found->ai_addrlen;
    freeaddrinfo(found);
  }
  Fd fd(socket(address.ss_family, SOCK_STREAM | SOCK_CLOEXEC, 0));
  if (!fd.valid()) return system_error("socket");
  if (connect(fd.get(), reinterpret_cast<sockaddr*>(&address), length) != 0)
    return Error{ErrorKind::kUnavailable,
                 wire::to_string(at) + ": " + std::string(strerrordesc_np(errno))};
  const int on = 1;
  if (at.path.empty()) setsockopt(fd.get(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  return fd;
}

}  // namespace

Result<std::shared_ptr<Link>> Link::open(const wire::Endpoint& controller, const Hello& hello) {
  SLUICE_ASSIGN(socket, connected_to(controller));
  std::shared_ptr<Link> link(new Link(std::move(socket)));
  SLUICE_TRY(link->send(hello));
  return link;
}

Link::Link(Fd socket) : socket_(std::move(socket)), reader_([this] { read(); }) {}

Link::~Link() {
  shutdown(socket_.get(), SHUT_RDWR);
  reader_.join();
}

Result<void> Link::send(const WorkerMessage& message) {
  const std::string line = to_line(message);
  const std::lock_guard guard(sending_);
  for (size_t sent = 0; sent < line.size();) {
    const ssize_t n = ::send(socket_.get(), line.data() + sent, line.size() - sent, MSG_NOSIGNAL);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return Error{ErrorKind::kUnavailable, "the job's controller is gone"};
    sent += static_cast<size_t>(n);
  }
  return {};
}

void Link::read() {
  std::string text;
  char buffer[16 * 1024];
  for (;;) {
    const ssize_t n = recv(socket_.get(), buffer, sizeof buffer, 0);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) break;
    text.append(buffer, static_cast<size_t>(n));
    size_t begin = 0;
    for (size_t end = 0; (end = text.find('\n', begin)) != text.npos; begin = end + 1)
      if (auto m = controller_message_from(std::string_view(text).substr(begin, end - begin));
          m.ok())
        take(std::move(*m));
    text.erase(0, begin);
    if (text.size() > kLongestMessage) break;
  }
  lost_ = true;
  const std::lock_guard guard(lock_);
  changed_.notify_all();
}

void Link::take(ControllerMessage message) {
  if (std::holds_alternative<Ping>(message)) return (void)send(Pong{});
  if (const auto* halt = std::get_if<Halt>(&message)) halted_ = halt->generation;
  if (const auto* adapt = std::get_if<Adapt>(&message)) adapted_ = adapt->batch;
  const std::lock_guard guard(lock_);
  if (auto* value = std::get_if<StoreValue>(&message))
    values_[value->key] = std::move(value->value);
  else if (!std::holds_alternative<Halt>(message) && !std::holds_alternative<Adapt>(message))
    messages_.push_back(std::move(message));
  changed_.notify_all();
}

std::optional<ControllerMessage> Link::next(Nanos patience) {
  std::unique_lock guard(lock_);
  changed_.wait_for(guard, patience, [&] { return !messages_.empty() || lost_; });
  if (messages_.empty()) return std::nullopt;
  ControllerMessage m = std::move(messages_.front());
  messages_.pop_front();
  return m;
}

Result<std::string> Link::wait_for(const std::string& key, int64_t generation) {
  SLUICE_TRY(send(StoreGet{key}));
  std::unique_lock guard(lock_);
  changed_.wait(guard, [&] { return values_.contains(key) || halted(generation); });
  const auto found = values_.find(key);
  if (found == values_.end())
    return Error{ErrorKind::kUnavailable, "generation " + std::to_string(generation) + " ends"};
  return found->second;
}

}  // namespace sluice::train
