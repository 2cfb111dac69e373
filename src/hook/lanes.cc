#include "hook/lanes.h"

#include <errno.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace sluice::hook {
namespace {

bool gone(uint32_t thread) {
  const int saved_errno = errno;
  const bool lives = syscall(SYS_tgkill, getpid(), thread, 0) == 0;
  errno = saved_errno;
  return !lives;
}

}  // namespace

Lane* Lanes::claim(uint32_t thread, CUstream stream) {
  Lane* idle = nullptr;
  Lane* free = nullptr;
  for (unsigned i = 0; i < kSize && free == nullptr; ++i) {
    Lane& lane = lanes_[(home(thread, stream) + i) % kSize];
    if (lane.owner == 0)
      free = &lane;
    else if (lane.owner == thread && lane.stream == stream)
      return &lane;
    else if (idle == nullptr && lane.unfinished_ns() == 0 && lane.marks == 0 &&
             (lane.owner == thread || gone(lane.owner)))
      idle = &lane;
  }
  if (idle == nullptr && free == nullptr) return nullptr;
  if (idle == nullptr) used_[count_++] = static_cast<uint16_t>(free - lanes_);
  Lane& made = idle != nullptr ? *idle : *free;
  memset(&made, 0, sizeof made);
  made.owner = thread;
  made.stream = stream;
  return &made;
}

uint64_t Lanes::in_flight_ns() const {
  uint64_t sum = 0;
  for (unsigned i = 0; i < count_; ++i) sum += lanes_[used_[i]].in_flight_ns();
  return sum;
}

bool Lanes::others_beside(const Lane& lane) const {
  for (unsigned i = 0; i < count_; ++i) {
    const Lane& other = lanes_[used_[i]];
    if (other.owner != lane.owner && other.stream != lane.stream && other.in_flight_ns() != 0)
      return true;
  }
  return false;
}

}  // namespace sluice::hook
