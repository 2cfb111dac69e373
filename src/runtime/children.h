// A loop that forks on request: what zygote and template have in common. It lives in a process of
// one thread, answers the messages of one socket, and reaps what it forked.
#pragma once

#include <sys/types.h>

#include <functional>
#include <optional>
#include <vector>

#include "base/clock.h"
#include "base/fd.h"
#include "base/result.h"
#include "wire/packet.h"
#include "wire/zygote.h"

namespace sluice::runtime {

class Children {
 public:
  // Handles packets until the other side closes `control`.
  void serve(int control, const std::function<void(wire::Packet)>& handle);

  // Forks; the child runs `body` with no descriptor open but `keep` and the standard three, and
  // ends with what it returns. Tells `control` Started with the pidfd, or Failed.
  void start(int control, std::vector<int> keep, const std::function<int()>& body);

 private:
  // How a child ended stands in /proc until it is reaped, and before Linux 6.15 nowhere else that
  // the daemon, which is not its parent, can see.
  static constexpr Nanos kCorpseStays = Seconds(1);

  struct Child {
    Fd pidfd;
    std::optional<Time> died;
  };

  void reap();

  std::vector<Child> children_;
};

}  // namespace sluice::runtime
