// Processes that use a model store, and are killed at a step that they name. For tests only.
#pragma once

#include <fcntl.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <functional>
#include <utility>

#include "base/fd.h"
#include "base/result.h"
#include "wire/model_store.h"

namespace sluice::node {

struct SocketEnds {
  Fd ours, theirs;
};
inline SocketEnds socket_pair() {
  int fds[2];
  SLUICE_CHECK(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, fds) == 0, "socketpair");
  return {Fd(fds[0]), Fd(fds[1])};
}

// A process with a connection of its own and nothing else open. It reports its progress; at the end
// it stays as it is until it is killed.
class StoreUser {
 public:
  using Say = std::function<void(char step)>;

  // Its descriptors: the connection, and the pipe for its progress.
  static constexpr int kSocket = 1000, kSteps = 1001;

  StoreUser(Fd socket, const std::function<void(sluice_store*, const Say&)>& body) {
    int ends[2];
    SLUICE_CHECK(pipe2(ends, O_CLOEXEC) == 0, "pipe2");
    pid_ = fork();
    if (pid_ == 0) {
      dup2(socket.get(), kSocket);
      dup2(ends[1], kSteps);
      syscall(SYS_close_range, 3u, static_cast<unsigned>(kSocket) - 1, 0);
      syscall(SYS_close_range, static_cast<unsigned>(kSteps) + 1, ~0u, 0);
      sluice_store* store = nullptr;
      sluice_store_adopt(kSocket, &store);
      body(store, [](char step) { (void)!write(kSteps, &step, 1); });
      close(kSteps);
      for (;;) pause();
    }
    close(ends[1]);
    steps_ = Fd(ends[0]);
  }
  ~StoreUser() { kill(); }
  StoreUser(const StoreUser&) = delete;

  // Waits for the next step. Returns 'x' if there is none any more.
  char next_step() const {
    char step = 0;
    return read(steps_.get(), &step, 1) == 1 ? step : 'x';
  }
  void kill() {
    if (pid_ == 0) return;
    ::kill(pid_, SIGKILL);
    waitpid(std::exchange(pid_, 0), nullptr, 0);
  }

 private:
  pid_t pid_ = 0;
  Fd steps_;
};

}  // namespace sluice::node
