// Watches a descriptor through an epoll: level-triggered, for reading. The kernel bounds the number
// of watches, and connecting clients use it up: beyond it the caller refuses.
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
