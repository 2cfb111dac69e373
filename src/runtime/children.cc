#include "runtime/children.h"

#include <poll.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <system_error>

namespace sluice::runtime {
namespace {

void close_all_but(std::vector<int> keep) {
  keep.insert(keep.end(), {0, 1, 2});
  std::ranges::sort(keep);
  unsigned first = 0;
  for (const int fd : keep) {
    const auto next = static_cast<unsigned>(fd);
    if (next > first) ::syscall(SYS_close_range, first, next - 1, 0);
    first = next + 1;
  }
  ::syscall(SYS_close_range, first, ~0U, 0);
}

}  // namespace

void Children::serve(int control, const std::function<void(wire::Packet)>& handle) {
  for (;;) {
    std::vector<pollfd> polled{{control, POLLIN, 0}};
    bool corpses = false;
    for (const Child& child : children_) {
      if (!child.died) polled.push_back({child.pidfd.get(), POLLIN, 0});
      corpses |= child.died.has_value();
    }
    const int patience_ms = corpses ? static_cast<int>(kCorpseStays / Millis(1)) : -1;
    if (::poll(polled.data(), polled.size(), patience_ms) < 0 && errno != EINTR) return;
    reap();
    if (polled[0].revents == 0) continue;
    auto packet = wire::receive_packet(control);
    if (packet.ok())
      handle(std::move(*packet));
    else if (packet.error().kind == ErrorKind::kInvalid)
      (void)wire::send_message(control, wire::failed(packet.error()));
    else
      return;
  }
}

void Children::start(int control, std::vector<int> keep, const std::function<int()>& body) {
  std::fflush(nullptr);  // buffered output must not be written twice
  const pid_t pid = ::fork();
  if (pid == 0) {
    close_all_but(std::move(keep));
    const int status = body();
    std::fflush(nullptr);
    ::_exit(status);  // the parent runs the destructors of what it loaded
  }
  // Only this thread reaps, so the pid cannot be another process's yet.
  Fd pidfd(pid < 0 ? -1 : static_cast<int>(::syscall(SYS_pidfd_open, pid, 0)));
  if (!pidfd.valid()) {
    (void)wire::send_message(
        control,
        wire::failed({ErrorKind::kInternal, "fork: " + std::generic_category().message(errno)}));
    return;
  }
  wire::Started started;
  started.pid = pid;
  const int fds[] = {pidfd.get()};
  (void)wire::send_message(control, started, fds);
  children_.push_back({std::move(pidfd), std::nullopt});
}

void Children::reap() {
  const Time now = SteadyClock().now();
  std::erase_if(children_, [now](Child& child) {
    const auto id = static_cast<id_t>(child.pidfd.get());
    siginfo_t info{};
    const bool over = ::waitid(P_PIDFD, id, &info, WEXITED | WNOHANG | WNOWAIT) != 0;
    if (!over && info.si_pid == 0) return false;
    if (!child.died) child.died = now;
    if (!over && now < *child.died + kCorpseStays) return false;
    (void)::waitid(P_PIDFD, id, &info, WEXITED | WNOHANG);
    return true;
  });
}

}  // namespace sluice::runtime
