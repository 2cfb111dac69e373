#include "tests/support/crowd.h"

#include <netinet/in.h>
#include <signal.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>

#include <algorithm>
#include <memory>
#include <new>
#include <unordered_map>

#include "base/check.h"
#include "base/clock.h"
#include "base/fd.h"
#include "tests/support/gateway_bed.h"

namespace sluice::bench {
namespace {

constexpr Nanos kPace = Millis(20);
// Connections opened in a tick: at first, and to replace a closed one.
constexpr int kConnects = 100, kReconnects = 10;

struct Member {
  Fd fd;
  bool connected = false;
  size_t opened = 0;     // of the opening, sent
  uint64_t again = 0;    // bytes sent behind it
  uint64_t allowed = 0;  // … by the pace
};

class Mob {
 public:
  Mob(uint16_t port, const Habit& habit, CrowdState& state)
      : habit_(habit), state_(state), epoll_(::epoll_create1(EPOLL_CLOEXEC)) {
    at_ = {.sin_family = AF_INET, .sin_port = htons(port), .sin_addr = {htonl(INADDR_LOOPBACK)}};
    // Larger pieces cost the attacker fewer calls.
    while (!habit.again.empty() && again_.size() < 16 * 1024) again_ += habit.again;
  }

  [[noreturn]] void run() {
    for (Time tick_at{};;) {
      epoll_event events[256];
      const int n = ::epoll_wait(epoll_.get(), events, 256, static_cast<int>(kPace / Millis(1)));
      for (int i = 0; i < n; ++i) serve(events[i]);
      if (clock_.now() < tick_at) continue;
      tick_at = clock_.now() + kPace;
      tick();
    }
  }

 private:
  void tick() {
    const int missing = habit_.connections - static_cast<int>(members_.size());
    const bool first = state_.tried < static_cast<uint64_t>(habit_.connections);
    const int most = first ? kConnects : habit_.comes_back ? kReconnects : 0;
    for (int i = 0; i < std::min(missing, most); ++i) connect();
    if (habit_.bytes_per_second == 0) return;
    std::vector<int> members;
    for (const auto& [fd, member] : members_) members.push_back(fd);
    for (const int fd : members) {
      Member& m = *members_.at(fd);
      m.allowed += static_cast<uint64_t>(habit_.bytes_per_second) * (kPace / Millis(1)) / 1000;
      if (m.connected && !push(m)) forget(fd);
    }
  }

  void connect() {
    ++state_.tried;
    auto m = std::make_unique<Member>();
    m->fd.reset(::socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
    const int fd = m->fd.get();
    if (fd < 0 || (::connect(fd, reinterpret_cast<const sockaddr*>(&at_), sizeof at_) != 0 &&
                   errno != EINPROGRESS)) {
      ++state_.refused;
      return;
    }
    const bool floods = !again_.empty() && habit_.bytes_per_second == 0;
    epoll_event e{.events = EPOLLOUT | EPOLLRDHUP | (habit_.reads ? EPOLLIN : 0u) |
                            (floods ? 0u : static_cast<unsigned>(EPOLLET)),
                  .data = {.fd = fd}};
    SLUICE_CHECK(::epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, fd, &e) == 0, "epoll_ctl");
    members_[fd] = std::move(m);
  }

  void serve(const epoll_event& event) {
    const auto found = members_.find(event.data.fd);
    if (found == members_.end()) return;
    Member& m = *found->second;
    bool lives = (event.events & (EPOLLERR | EPOLLHUP)) == 0;
    if (lives && !m.connected && (event.events & EPOLLOUT) != 0) {
      m.connected = true;
      ++state_.opened;
      state_.most_open = std::max(state_.most_open.load(), ++state_.open);
    }
    if (!habit_.reads && (event.events & EPOLLRDHUP) != 0) lives = false;
    if (lives && habit_.reads && (event.events & (EPOLLIN | EPOLLRDHUP)) != 0) lives = read(m);
    if (lives && (event.events & EPOLLOUT) != 0) lives = push(m);
    if (!lives) forget(event.data.fd);
  }

  bool read(Member& m) {
    for (;;) {
      const ssize_t n = ::recv(m.fd.get(), scratch_, sizeof scratch_, MSG_DONTWAIT);
      if (n < 0 && errno == EAGAIN) return true;
      if (n <= 0) return false;
      state_.received += static_cast<uint64_t>(n);
    }
  }

  // Sends as much as its habit and the socket allow.
  bool push(Member& m) {
    while (m.opened < habit_.opening.size()) {
      const ssize_t n = ::send(m.fd.get(), habit_.opening.data() + m.opened,
                               habit_.opening.size() - m.opened, MSG_NOSIGNAL);
      if (n < 0) return errno == EAGAIN;
      m.opened += static_cast<size_t>(n);
      state_.sent += static_cast<uint64_t>(n);
    }
    if (again_.empty()) return true;
    const uint64_t until =
        std::min(habit_.most, habit_.bytes_per_second == 0 ? UINT64_MAX : m.allowed);
    // A tick's worth: the others of the crowd are served, too.
    for (int piece = 0; piece < 4 && m.again < until; ++piece) {
      const size_t from = m.again % again_.size();
      const size_t size = std::min<uint64_t>(again_.size() - from, until - m.again);
      const ssize_t n = ::send(m.fd.get(), again_.data() + from, size, MSG_NOSIGNAL);
      if (n < 0) return errno == EAGAIN;
      m.again += static_cast<uint64_t>(n);
      state_.sent += static_cast<uint64_t>(n);
    }
    if (m.again == habit_.most) {  // nothing left to send
      epoll_event e{.events = EPOLLIN | EPOLLRDHUP, .data = {.fd = m.fd.get()}};
      ::epoll_ctl(epoll_.get(), EPOLL_CTL_MOD, m.fd.get(), &e);
    }
    return true;
  }

  void forget(int fd) {
    if (members_.at(fd)->connected) {
      --state_.open;
      ++state_.closed;
    } else {
      ++state_.refused;
    }
    members_.erase(fd);
  }

  const Habit& habit_;
  CrowdState& state_;
  Fd epoll_;
  SteadyClock clock_;
  sockaddr_in at_{};
  std::string again_;
  std::unordered_map<int, std::unique_ptr<Member>> members_;
  char scratch_[64 * 1024];
};

}  // namespace

Crowd::Crowd(uint16_t port, const Habit& habit) {
  void* page = ::mmap(nullptr, sizeof(CrowdState), PROT_READ | PROT_WRITE,
                      MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  SLUICE_CHECK(page != MAP_FAILED, "no shared page");
  state_ = new (page) CrowdState;
  pid_ = ::fork();
  SLUICE_CHECK(pid_ >= 0, "fork");
  if (pid_ != 0) return;
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  raise_descriptors();
  Mob(port, habit, *state_).run();
}

Crowd::~Crowd() {
  ::kill(pid_, SIGKILL);
  ::waitpid(pid_, nullptr, 0);
  ::munmap(state_, sizeof(CrowdState));
}

}  // namespace sluice::bench
