#include "store/server.h"

#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <deque>
#include <utility>

#include "wire/permit_steps.h"
#include "wire/store_error.h"

namespace sluice::node {
namespace {

using What = StoreAnswer::What;

constexpr uint64_t kStop = 0;  // clients are numbered from 1

StoreLimits limits_of(const StoreServerSettings& s, uint64_t granule) {
  return {.capacity = s.capacity,
          .per_owner = s.per_owner != 0 ? s.per_owner : s.capacity,
          .granule = granule};
}

sluice_store_answer message(sluice_store_type type, const StoreAnswer& answer) {
  sluice_store_answer m{};
  m.head = {SLUICE_STORE_MAGIC, SLUICE_STORE_VERSION, static_cast<uint32_t>(type)};
  m.tensor = answer.tensor;
  m.bytes = answer.bytes;
  return m;
}

sluice_store_answer refusal(const StoreAnswer& answer) {
  sluice_store_answer m = message(SLUICE_TOLD_REFUSED, answer);
  m.error = wire::store_error_of(answer.error.kind);
  std::strncpy(m.text, answer.error.message.c_str(), sizeof m.text - 1);
  return m;
}

// Never blocks. The buffer suffices: a client that keeps to the protocol has read every answer but
// this one.
bool send(int socket, const sluice_store_answer& m, int descriptor) {
  iovec data{.iov_base = const_cast<sluice_store_answer*>(&m), .iov_len = sizeof m};
  alignas(cmsghdr) std::array<std::byte, CMSG_SPACE(sizeof(int))> control{};
  msghdr packet{};
  packet.msg_iov = &data;
  packet.msg_iovlen = 1;
  if (descriptor >= 0) {
    packet.msg_control = control.data();
    packet.msg_controllen = control.size();
    cmsghdr* c = CMSG_FIRSTHDR(&packet);
    c->cmsg_level = SOL_SOCKET;
    c->cmsg_type = SCM_RIGHTS;
    c->cmsg_len = CMSG_LEN(sizeof descriptor);
    std::memcpy(CMSG_DATA(c), &descriptor, sizeof descriptor);
  }
  return sendmsg(socket, &packet, MSG_DONTWAIT | MSG_NOSIGNAL) == sizeof m;
}

bool is_name(const char (&name)[SLUICE_STORE_NAME]) {
  const auto* end = std::find(std::begin(name), std::end(name), '\0');
  return end != std::begin(name) && end != std::end(name) &&
         std::all_of(std::begin(name), end, [](char c) { return c > ' ' && c < 0x7f; });
}

}  // namespace

Result<sluice_store_request> parse_store_request(std::span<const std::byte> bytes) {
  sluice_store_request m{};
  if (bytes.size() < sizeof m) return Error{ErrorKind::kInvalid, "a request cut short"};
  std::memcpy(&m, bytes.data(), sizeof m);  // longer: a newer client's
  if (m.head.magic != SLUICE_STORE_MAGIC || m.head.version < SLUICE_STORE_VERSION)
    return Error{ErrorKind::kInvalid, "not a request of the model store"};
  if (m.head.type < SLUICE_ASK_STORE || m.head.type > SLUICE_ASK_CANCEL)
    return Error{ErrorKind::kInvalid, "type: there is no request " + std::to_string(m.head.type)};
  if (m.head.type <= SLUICE_ASK_GET && !is_name(m.name))
    return Error{ErrorKind::kInvalid,
                 "name: is not 1 … 255 printable ASCII characters without spaces"};
  return m;
}

StoreServer::StoreServer(std::unique_ptr<StoreMemory> memory, const StoreServerSettings& settings)
    : settings_(settings),
      memory_(std::move(memory)),
      epoll_(epoll_create1(EPOLL_CLOEXEC)),
      stop_(eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC)),
      book_(limits_of(settings, memory_->granule())) {
  epoll_event event{.events = EPOLLIN, .data = {.u64 = kStop}};
  SLUICE_CHECK(epoll_.valid() && stop_.valid() &&
                   epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, stop_.get(), &event) == 0,
               "out of descriptors");
  thread_ = std::thread([this] { run(); });
}

StoreServer::~StoreServer() {
  eventfd_write(stop_.get(), 1);
  thread_.join();
}

Result<void> StoreServer::adopt(Fd socket, std::string owner) {
  const std::scoped_lock lock(mutex_);
  if (connections_.size() >= settings_.max_connections)
    return Error{ErrorKind::kExhausted, "the model store serves " +
                                            std::to_string(settings_.max_connections) +
                                            " connections already"};
  const StoreClient client = ++last_client_;
  epoll_event event{.events = EPOLLIN, .data = {.u64 = client}};
  if (epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, socket.get(), &event) != 0)
    return Error{ErrorKind::kInvalid, "not a socket that can be served"};
  connections_[client] = {std::move(socket), std::move(owner)};
  return {};
}

StoreUse StoreServer::use() const {
  const std::scoped_lock lock(mutex_);
  return {book_.used(), book_.tensors(), connections_.size()};
}

void StoreServer::wait_until_unused() const {
  std::unique_lock lock(mutex_);
  emptied_.wait(lock, [this] { return connections_.empty(); });
}

void StoreServer::run() {
  for (;;) {
    std::array<epoll_event, 64> events;
    const int n = epoll_wait(epoll_.get(), events.data(), events.size(), -1);
    const std::scoped_lock lock(mutex_);
    for (int i = 0; i < n; ++i) {
      if (events[i].data.u64 == kStop) return;
      on_message(events[i].data.u64);
    }
  }
}

// Takes one request. A malformed message, or one while another is open, ends the connection, as its
// end does.
void StoreServer::on_message(StoreClient client) {
  const auto at = connections_.find(client);
  if (at == connections_.end()) return;
  std::array<std::byte, 2 * sizeof(sluice_store_request)> bytes;
  const ssize_t n = recv(at->second.socket.get(), bytes.data(), bytes.size(), MSG_DONTWAIT);
  if (n < 0 && (errno == EAGAIN || errno == EINTR)) return;
  if (n <= 0) return carry_out(drop(client));
  const auto request = parse_store_request(std::span(bytes).first(static_cast<size_t>(n)));
  if (!request.ok()) {
    send(at->second.socket.get(), refusal({.error = request.error()}), -1);
    return carry_out(drop(client));
  }
  if (book_.waits(client) && request->head.type != SLUICE_ASK_CANCEL)
    return carry_out(drop(client));
  SLUICE_STEP("serve: asked");
  carry_out(handle(client, at->second.owner, *request));
}

StoreOutcome StoreServer::handle(StoreClient client, const std::string& owner,
                                 const sluice_store_request& request) {
  switch (request.head.type) {
    case SLUICE_ASK_STORE:
      return book_.store(client, owner, request.name, request.bytes);
    case SLUICE_ASK_GET:
      return book_.get(client, owner, request.name);
    case SLUICE_ASK_COMMIT:
      return commit(client, request.tensor);
    case SLUICE_ASK_RELEASE:
      return book_.release(client, request.tensor);
    default:
      return book_.cancel(client);
  }
}

// Clients learn of a tensor only once it can no longer change.
StoreOutcome StoreServer::commit(StoreClient client, TensorNumber tensor) {
  if (book_.fills(client, tensor)) {
    const Result<void> sealed = memory_->seal(tensor);
    SLUICE_STEP("serve: sealed");
    if (!sealed.ok()) {
      StoreOutcome outcome;
      outcome.answers.push_back({.to = client, .tensor = tensor, .error = sealed.error()});
      return outcome;
    }
  }
  return book_.commit(client, tensor);
}

// Outcomes are carried out in the book's order.
void StoreServer::carry_out(StoreOutcome outcome) {
  std::deque<StoreOutcome> todo;
  todo.push_back(std::move(outcome));
  while (!todo.empty()) {
    const StoreOutcome next = std::move(todo.front());
    todo.pop_front();
    for (const TensorNumber tensor : next.freed) {
      memory_->free(tensor);
      SLUICE_STEP("serve: freed");
    }
    for (const StoreAnswer& answer : next.answers)
      if (std::optional<StoreOutcome> follows = tell(answer)) todo.push_back(std::move(*follows));
  }
  if (connections_.empty()) emptied_.notify_all();
}

std::optional<StoreOutcome> StoreServer::tell(const StoreAnswer& answer) {
  const auto at = connections_.find(answer.to);
  if (at == connections_.end()) return std::nullopt;  // its references are already freed
  const int socket = at->second.socket.get();
  sluice_store_answer m =
      answer.what == What::kRefused ? refusal(answer) : message(SLUICE_TOLD_DONE, answer);
  int descriptor = -1;
  if (answer.what != What::kRefused && answer.what != What::kReleased) {
    const Result<StoreHandle> handle = memory_of(answer);
    if (!handle.ok()) return book_.fail(answer.to, answer.tensor, handle.error());
    m.head.type = answer.what == What::kFill ? SLUICE_TOLD_FILL : SLUICE_TOLD_SHARE;
    m.mapped = handle->mapped;
    m.memory = handle->kind;
    std::memcpy(m.device, handle->device, sizeof m.device);
    std::memcpy(m.handle, handle->bytes, sizeof m.handle);
    descriptor = handle->descriptor;
  }
  if (!send(socket, m, descriptor)) return drop(answer.to);
  SLUICE_STEP("serve: told");
  return std::nullopt;
}

Result<StoreHandle> StoreServer::memory_of(const StoreAnswer& answer) {
  if (answer.what != What::kFill) return memory_->for_sharing(answer.tensor);
  SLUICE_TRY(memory_->allocate(answer.tensor, answer.bytes));
  SLUICE_STEP("serve: allocated");
  return memory_->for_filling(answer.tensor);
}

StoreOutcome StoreServer::drop(StoreClient client) {
  const auto at = connections_.find(client);
  epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, at->second.socket.get(), nullptr);
  connections_.erase(at);
  SLUICE_STEP("serve: closed");
  return book_.leave(client);
}

}  // namespace sluice::node
