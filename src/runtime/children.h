// A loop that forks on request, for zygote and template. It runs in a process of one thread,
// answers the messages of one socket, and reaps its children.
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

  // Forks. The child runs `body` with no descriptor open but `keep` and the standard three, and
  // exits with its result. Sends `control` Started with the pidfd, or Failed.
  void start(int control, std::vector<int> keep, const std::function<int()>& body);

 private:
  // A child's exit status stands in /proc until it is reaped. Before Linux 6.15 the daemon, which
  // is not its parent, can see it nowhere else.
  static constexpr Nanos kCorpseStays = Seconds(1);

  struct Child {
    Fd pidfd;
    std::optional<Time> died;
  };

  void reap();

  std::vector<Child> children_;
};

}  // namespace sluice::runtime
