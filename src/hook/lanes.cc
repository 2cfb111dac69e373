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
  retired_ns_ += made.submitted;
  memset(&made, 0, sizeof made);
  made.owner = thread;
  made.stream = stream;
  return &made;
}

uint64_t Lanes::submitted_ns() const {
  return retired_ns_ + sum([](const Lane& lane) { return lane.done(); });
}
uint64_t Lanes::finished_ns() const {
  return retired_ns_ + sum([](const Lane& lane) { return lane.finished; });
}
uint64_t Lanes::in_flight_ns() const {
  return sum([](const Lane& lane) { return lane.in_flight_ns(); });
}
uint64_t Lanes::leave_ns() const {
  return sum([](const Lane& lane) { return lane.leave_ns(); });
}

bool Lanes::others_in_flight(const Lane& lane) const {
  return sum([&](const Lane& other) { return &other != &lane ? other.in_flight_ns() : 0; }) != 0;
}
bool Lanes::others_beside(const Lane& lane) const {
  return sum([&](const Lane& other) {
           const bool beside = other.owner != lane.owner && other.stream != lane.stream;
           return beside ? other.in_flight_ns() : 0;
         }) != 0;
}

void Lanes::host_ends(uint32_t thread, uint64_t now) {
  for_each([&](Lane& lane) {
    if (lane.owner != thread || lane.host_from_ns == 0) return;
    const uint64_t from = lane.host_from_ns > host_until_ns_ ? lane.host_from_ns : host_until_ns_;
    if (now > from) host_ns_ += now - from;
    if (now > host_until_ns_) host_until_ns_ = now;
    lane.host_from_ns = 0;
  });
}

}  // namespace sluice::hook
