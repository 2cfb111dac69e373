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
    for (const Fd& fd : pidfds_) polled.push_back({fd.get(), POLLIN, 0});
    if (::poll(polled.data(), polled.size(), -1) < 0 && errno != EINTR) return;
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
  std::fflush(nullptr);  // what is buffered must not be written twice
  const pid_t pid = ::fork();
  if (pid == 0) {
    close_all_but(std::move(keep));
    const int status = body();
    std::fflush(nullptr);
    ::_exit(status);  // destructors of what the parent loaded are the parent's affair
  }
  // Only this thread reaps, so that the pid cannot be somebody else's yet.
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
  pidfds_.push_back(std::move(pidfd));
}

void Children::reap() {
  std::erase_if(pidfds_, [](const Fd& fd) {
    siginfo_t info{};
    return ::waitid(P_PIDFD, static_cast<id_t>(fd.get()), &info, WEXITED | WNOHANG) != 0 ||
           info.si_pid != 0;
  });
}

}  // namespace sluice::runtime
