// Hears of a descriptor through an epoll: level-triggered, for reading. What the kernel grants for
// this is bounded, and who connects uses it up: where there is no more, the caller refuses.
#pragma once

#include <sys/epoll.h>

#include <cerrno>

#include "base/fd.h"
#include "base/result.h"
#include "base/system_error.h"

namespace sluice {

inline Result<void> epoll_hear(const Fd& epoll, int fd, uint64_t tag) {
  epoll_event event{.events = EPOLLIN, .data = {.u64 = tag}};
  if (epoll_ctl(epoll.get(), EPOLL_CTL_ADD, fd, &event) == 0) return {};
  return Error{ErrorKind::kExhausted, system_error("it cannot be heard").message};
}

}  // namespace sluice
