#include "base/clock.h"

#include <ctime>

namespace sluice {

Time SteadyClock::now() const {
  timespec t{};
  clock_gettime(CLOCK_MONOTONIC, &t);
  return Time(Seconds(t.tv_sec) + Nanos(t.tv_nsec));
}

UnixMillis unix_now() {
  timespec t{};
  clock_gettime(CLOCK_REALTIME, &t);
  return static_cast<UnixMillis>(t.tv_sec) * 1000 + t.tv_nsec / 1'000'000;
}

}  // namespace sluice
