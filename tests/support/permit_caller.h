// A process that asks at a permit socket as gates and hooks do. For tests only.
#pragma once

#include <poll.h>

#include <string>

#include "base/fd.h"
#include "wire/permit_attach.h"
#include "wire/permit_memory.h"

namespace sluice::node {

class PermitCaller {
 public:
  // Sends one message: a HELLO, a MEMORY_HELLO or a LOOK. The connection lives as long as this.
  PermitCaller(const std::string& path, uint32_t type) {
    sluice_memory_hello message{};  // the longest of the three
    message.head = {SLUICE_HELLO_MAGIC, SLUICE_WIRE_VERSION, type};
    socket_ = Fd(sluice_call_daemon(path.c_str(), &message, sizeof message));
    if (!socket_.valid()) return;
    pollfd readable{.fd = socket_.get(), .events = POLLIN, .revents = 0};
    poll(&readable, 1, 60'000);
    int fds[3];
    size_ = sluice_receive(socket_.get(), &answer_, sizeof answer_, fds);
    for (const int fd : fds)
      if (fd >= 0) ::close(fd);
  }

  // Returns "welcome", "seen", "refused 3" (a sluice_refusal), "nobody" if no server listens, or
  // "nothing" without an answer.
  std::string answer() const {
    if (!socket_.valid()) return "nobody";
    if (size_ <= 0) return "nothing";
    if (answer_.head.type == SLUICE_MEMORY_SEEN) return "seen";
    if (answer_.head.type != SLUICE_REFUSED) return "welcome";
    return "refused " + std::to_string(answer_.refused.reason);
  }
  const sluice_memory_seen& seen() const { return answer_.seen; }
  uint32_t generation() const { return answer_.welcome.generation; }

 private:
  Fd socket_;
  long size_ = 0;
  union {
    sluice_message head;
    sluice_welcome welcome;
    sluice_refused refused;
    sluice_memory_seen seen;
  } answer_{};
};

inline std::string answer_at(const std::string& path, uint32_t type = SLUICE_HELLO) {
  return PermitCaller(path, type).answer();
}

}  // namespace sluice::node
