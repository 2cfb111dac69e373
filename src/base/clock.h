// Time as a value. `Time` has no now(): code that decides is handed the moment, and only mains and
// adapters hold a Clock. Monotonic nanoseconds, with the same origin for every process of one boot.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>

namespace sluice {

using Nanos = std::chrono::nanoseconds;
using Micros = std::chrono::microseconds;
using Millis = std::chrono::milliseconds;
using Seconds = std::chrono::seconds;

// A clock in the sense of <chrono>, without now(): CLOCK_MONOTONIC live, virtual time in a test.
struct Monotonic {
  using duration = Nanos;
  using rep = duration::rep;
  using period = duration::period;
  using time_point = std::chrono::time_point<Monotonic>;
  static constexpr bool is_steady = true;
};
using Time = Monotonic::time_point;

constexpr double seconds(Nanos d) {
  return std::chrono::duration<double>(d).count();
}
constexpr double millis(Nanos d) {
  return std::chrono::duration<double, std::milli>(d).count();
}
constexpr Nanos from_seconds(double s) {
  return Nanos(static_cast<int64_t>(s * 1e9));
}
constexpr Nanos from_millis(double ms) {
  return Nanos(static_cast<int64_t>(ms * 1e6));
}

// Thread-safe: any thread may ask.
class Clock {
 public:
  virtual ~Clock() = default;
  virtual Time now() const = 0;
};

class SteadyClock : public Clock {
 public:
  Time now() const override;
};

// Moves on request. Starts one hour after zero, so that "an hour ago" exists.
class ManualClock : public Clock {
 public:
  explicit ManualClock(Time start = Time(std::chrono::hours(1))) : now_(start.time_since_epoch()) {}
  Time now() const override { return Time(now_.load()); }
  void advance(Nanos by) { now_.store(now_.load() + by); }
  void set(Time to) { now_.store(to.time_since_epoch()); }

 private:
  std::atomic<Nanos> now_;
};

// Milliseconds since 1970, for people and for data that outlives a boot; never for durations.
using UnixMillis = int64_t;
UnixMillis unix_now();

}  // namespace sluice
