#include "train/job_server.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "base/secret.h"
#include "base/system_error.h"

namespace sluice::train {
namespace {

constexpr size_t kMostUnsent = 256 * 1024;  // to a worker that reads nothing
constexpr size_t kMostAtOnce = 64 * 1024;   // read of a connection before the others' turn
constexpr size_t kAcceptedAtOnce = 64;      // before those that are there are read
constexpr size_t kLongestHello = 4 * 1024;  // of a process that is not known to be a worker

// Returns the user id of the process at the other end, at connect().
uid_t uid_of(const Fd& socket) {
  ucred peer{.pid = 0, .uid = static_cast<uid_t>(-1), .gid = 0};
  socklen_t size = sizeof peer;
  getsockopt(socket.get(), SOL_SOCKET, SO_PEERCRED, &peer, &size);
  return peer.uid;
}

std::string in_seconds(Nanos t) {
  return std::to_string(t / Seconds(1)) + " s";
}

}  // namespace

Result<std::unique_ptr<JobServer>> JobServer::open(const wire::Endpoint& at, int64_t term,
                                                   const Clock& clock, JobServerLimits limits) {
  // Each worker has its own user id: the key in its environment is what lets it in.
  SLUICE_ASSIGN(listening, wire::listen_on(at, 0666));
  fcntl(listening.get(), F_SETFL, O_NONBLOCK);
  std::unique_ptr<JobServer> server(new JobServer(std::move(listening), term, clock, limits));
  if (!server->wake_.valid()) return system_error("eventfd");
  server->thread_ = std::thread([s = server.get()] { s->run(); });
  return server;
}

JobServer::JobServer(Fd listening, int64_t term, const Clock& clock, JobServerLimits limits)
    : listening_(std::move(listening)),
      term_(term),
      clock_(clock),
      limits_(limits),
      wake_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {}

JobServer::~JobServer() {
  {
    const std::lock_guard guard(lock_);
    ending_ = true;
  }
  wake();
  if (thread_.joinable()) thread_.join();
}

void JobServer::wake() const {
  const uint64_t one = 1;
  (void)!::write(wake_.get(), &one, sizeof one);
}

void JobServer::add(const std::string& name, const std::string& key, JobSettings settings) {
  const std::lock_guard guard(lock_);
  settings.job.term = term_;
  removed_.erase(name);
  jobs_.try_emplace(name, Entry{key, Job(std::move(settings), clock_.now())});
}

void JobServer::expect(const std::string& name, const std::string& worker) {
  const std::lock_guard guard(lock_);
  if (const auto found = jobs_.find(name); found != jobs_.end())
    found->second.job.expect(worker, clock_.now());
  wake();
}

void JobServer::expect_back(const std::string& name, const std::vector<std::string>& workers) {
  const std::lock_guard guard(lock_);
  const auto found = jobs_.find(name);
  if (found == jobs_.end()) return;
  const auto before = found->second.job.next_tick();
  for (const std::string& w : workers) found->second.job.expect_back(w, clock_.now());
  if (found->second.job.next_tick() != before) wake();
}

bool JobServer::ended(const std::string& name, const std::string& worker,
                      const std::string& error) {
  const std::lock_guard guard(lock_);
  const auto found = jobs_.find(name);
  if (found == jobs_.end()) return true;
  const bool useful = found->second.job.ended(worker, error, clock_.now());
  send(name, found->second.job.tick(clock_.now()));
  wake();
  return useful;
}

void JobServer::remove(const std::string& name) {
  const std::lock_guard guard(lock_);
  if (jobs_.erase(name) == 0) return;
  removed_.insert(name);
  for (auto& c : connections_) {
    if (c->job != name) continue;
    c->out += to_line(Refused{"the job was removed"});
    c->closing = true;
  }
  wake();
}

std::optional<JobStatus> JobServer::status(const std::string& name) const {
  const std::lock_guard guard(lock_);
  const auto found = jobs_.find(name);
  if (found == jobs_.end()) return std::nullopt;
  const Job& j = found->second.job;
  JobStatus status = status_of(j);
  status.batch_reason = j.batch_reason();
  status.members = j.members();
  status.reforms = j.reforms();
  status.stalled = j.stalled(clock_.now());
  status.waits_for = silent_workers(name);
  return status;
}

void JobServer::run() {
  std::unique_lock guard(lock_);
  while (!ending_) {
    std::vector<pollfd> polled = {{wake_.get(), POLLIN, 0}, {listening_.get(), POLLIN, 0}};
    for (const auto& c : connections_)
      polled.push_back(
          {c->socket.get(), static_cast<short>(POLLIN | (c->out.empty() ? 0 : POLLOUT)), 0});
    const int patience = timeout_ms();
    guard.unlock();
    ::poll(polled.data(), polled.size(), patience);
    guard.lock();
    uint64_t ignored = 0;
    (void)!::read(wake_.get(), &ignored, sizeof ignored);
    for (size_t i = 2; i < polled.size(); ++i) {
      Connection& c = *connections_[i - 2];
      if ((polled[i].revents & (POLLIN | POLLHUP | POLLERR)) != 0) read(c);
    }
    close_silent();
    ping_all();
    if (polled[1].revents != 0) accept_all();
    for (auto& [name, entry] : jobs_)
      if (const auto at = entry.job.next_tick(); at && *at <= clock_.now())
        send(name, entry.job.tick(clock_.now()));
    for (size_t i = 0; i < connections_.size(); ++i) write(*connections_[i]);
    std::erase_if(connections_, [](const auto& c) { return !c->socket.valid(); });
  }
}

int JobServer::timeout_ms() const {
  std::optional<Time> next;
  const auto at_latest = [&](Time t) { next = next ? std::min(*next, t) : t; };
  for (const auto& [name, entry] : jobs_)
    if (const auto at = entry.job.next_tick()) at_latest(*at);
  for (const auto& c : connections_)
    at_latest(c->job.empty() ? c->since + limits_.hello : pinged_ + limits_.ping);
  if (!next) return -1;
  const Nanos left = *next - clock_.now();
  return left <= Nanos(0) ? 0 : static_cast<int>(left / Millis(1)) + 1;
}

void JobServer::accept_all() {
  for (size_t n = 0; n < kAcceptedAtOnce; ++n) {
    Fd fd(accept4(listening_.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
    if (!fd.valid()) return;
    const uid_t uid = uid_of(fd);
    if (!admit(uid)) continue;
    connections_.push_back(std::make_unique<Connection>());
    Connection& c = *connections_.back();
    c.socket = std::move(fd);
    c.uid = uid;
    c.since = clock_.now();
  }
}

// Makes a place for a new connection. Returns false if that user id has too many without a hello,
// or all places are those of workers.
bool JobServer::admit(uid_t uid) {
  const auto stranger = [](const auto& c) { return c->job.empty(); };
  const auto mine = [&](const auto& c) { return stranger(c) && c->uid == uid; };
  if (std::ranges::count_if(connections_, mine) >= static_cast<ptrdiff_t>(limits_.strangers))
    return false;
  if (connections_.size() < limits_.connections) return true;
  const auto oldest = std::ranges::find_if(connections_, stranger);
  if (oldest == connections_.end()) return false;
  connections_.erase(oldest);
  return true;
}

size_t JobServer::workers_of(const std::string& job) const {
  return static_cast<size_t>(
      std::ranges::count_if(connections_, [&](const auto& c) { return c->job == job; }));
}

// Ends connections that say nothing: strangers', and those of workers that are stopped or hang.
void JobServer::close_silent() {
  const Time now = clock_.now();
  for (const auto& c : connections_) {
    if (!c->socket.valid()) continue;
    if (c->job.empty() && now - c->since >= limits_.hello) c->socket.reset();
    const Nanos silence = silence_of(*c);
    if (silence < limits_.answer) continue;
    c->socket.reset();
    const auto found = jobs_.find(c->job);
    if (found == jobs_.end()) continue;
    send(c->job,
         found->second.job.give_up(c->worker, "has not answered for " + in_seconds(silence), now));
  }
}

void JobServer::ping_all() {
  if (clock_.now() - pinged_ < limits_.ping) return;
  pinged_ = clock_.now();
  for (const auto& c : connections_) {
    if (!c->socket.valid() || c->job.empty() || c->closing) continue;
    c->out += to_line(Ping{});
    if (!c->asked) c->asked = pinged_;
  }
}

// Counts from a ping on, so that a pause of this process is not taken for one of the worker.
Nanos JobServer::silence_of(const Connection& c) const {
  return c.asked ? clock_.now() - *c.asked : Nanos(0);
}

// For people; empty while all answer.
std::string JobServer::silent_workers(const std::string& job) const {
  std::string text;
  for (const auto& c : connections_) {
    const Nanos silent = silence_of(*c);
    if (c->job != job || silent < 2 * limits_.ping) continue;
    text += (text.empty() ? "" : ", ") + c->worker + " has not answered for " + in_seconds(silent);
  }
  return text.empty() ? "" : text + "; a worker is ended after " + in_seconds(limits_.answer);
}

void JobServer::read(Connection& c) {
  char buffer[16 * 1024];
  for (size_t taken = 0; c.socket.valid() && taken < kMostAtOnce;) {
    const ssize_t n = recv(c.socket.get(), buffer, sizeof buffer, 0);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) break;
    if (n <= 0) return close(c);
    taken += static_cast<size_t>(n);
    c.asked.reset();
    c.in.append(buffer, static_cast<size_t>(n));
    size_t begin = 0;
    for (size_t end = 0; !c.closing && (end = c.in.find('\n', begin)) != c.in.npos; begin = end + 1)
      receive(c, std::string_view(c.in).substr(begin, end - begin));
    c.in.erase(0, begin);
    if (c.in.size() > (c.job.empty() ? kLongestHello : kLongestMessage)) return close(c);
  }
}

void JobServer::receive(Connection& c, std::string_view line) {
  const auto refuse = [&](std::string why) {
    c.out += to_line(Refused{std::move(why)});
    c.closing = true;
  };
  const auto message = worker_message_from(line);
  if (!message.ok()) return refuse(message.error().message);
  const auto* hello = std::get_if<Hello>(&*message);
  if (c.job.empty() != (hello != nullptr))
    return refuse("hello is the first message, and only the first");
  if (hello == nullptr) {
    const auto found = jobs_.find(c.job);
    if (found != jobs_.end())
      send(c.job, found->second.job.receive(c.worker, *message, clock_.now()));
    return;
  }
  const auto found = jobs_.find(hello->job);
  if (found == jobs_.end() && !removed_.contains(hello->job)) {
    c.closing = true;
    return;
  }
  if (found == jobs_.end() || !same_secret(hello->key, found->second.key))
    return refuse("job '" + hello->job.substr(0, 128) + "' was removed, or has another key");
  if (connection_of(hello->job, hello->worker) != nullptr)
    return refuse("a worker named " + hello->worker + " is here already");
  if (workers_of(hello->job) >= limits_.workers)
    return refuse("the job has " + std::to_string(limits_.workers) + " workers, which is the most");
  c.job = hello->job;
  c.worker = hello->worker;
  send(c.job, found->second.job.hello(*hello, clock_.now()));
}

void JobServer::close(Connection& c) {
  c.socket.reset();
  const auto found = jobs_.find(c.job);
  if (found != jobs_.end()) send(c.job, found->second.job.closed(c.worker, clock_.now()));
}

void JobServer::send(const std::string& job, const std::vector<Outgoing>& messages) {
  for (const Outgoing& m : messages) {
    Connection* c = connection_of(job, m.worker);
    if (c == nullptr) continue;
    c->out += to_line(m.message);
    if (std::holds_alternative<Refused>(m.message)) c->closing = true;
    write(*c);
  }
}

void JobServer::write(Connection& c) {
  while (c.socket.valid() && !c.out.empty()) {
    const ssize_t n = ::send(c.socket.get(), c.out.data(), c.out.size(), MSG_NOSIGNAL);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) break;
    c.out.erase(0, static_cast<size_t>(n));
  }
  if (!c.socket.valid()) return;
  if (c.out.size() > kMostUnsent || (c.closing && c.out.empty()))
    shutdown(c.socket.get(), SHUT_RDWR);  // read() meets its end next
}

JobServer::Connection* JobServer::connection_of(const std::string& job, const std::string& worker) {
  const auto found = std::find_if(connections_.begin(), connections_.end(), [&](const auto& c) {
    return c->socket.valid() && c->job == job && c->worker == worker;
  });
  return found == connections_.end() ? nullptr : found->get();
}

}  // namespace sluice::train
