// Checks by the device's own log whether a program keeps to its share of an emulated device in each
// of the arbiter's windows. One-sided: noise makes a program use less, never more. For tests only;
// a log is a value, of the moment in which it was read.
#pragma once

#include <algorithm>
#include <cstdio>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "tests/emulator/machine.h"
#include "tests/support/eventually.h"

namespace sluice {

// When the device was busy. Kernels are logged as they end; overlapping ones count once.
class DeviceLog {
 public:
  DeviceLog(emulator::Machine& machine, unsigned number) {
    using emulator::DeviceModel;
    const emulator::Machine::Lock lock(machine);
    const DeviceModel& device = lock->devices[number];
    now = Nanos(device.now());
    const uint64_t end = device.log_end();
    for (uint64_t i = end - std::min(end, DeviceModel::kLog); i < end; ++i) {
      const Nanos known = stretches_.empty() ? Nanos(0) : stretches_.back().end;
      const emulator::Stretch& s = device.stretch(i);
      if (Nanos(s.end_ns) > known)
        stretches_.push_back({std::max(known, Nanos(s.begin_ns)), Nanos(s.end_ns)});
    }
  }
  Nanos busy(Nanos begin, Nanos end) const {
    Nanos sum{0};
    auto s = std::ranges::upper_bound(stretches_, begin, {}, &Stretch::end);
    for (; s != stretches_.end() && s->begin < end; ++s)
      sum += std::min(end, s->end) - std::max(begin, s->begin);
    return sum;
  }
  Nanos now;

 private:
  struct Stretch {
    Nanos begin, end;
  };
  std::vector<Stretch> stretches_;
};

// Returns the log once so much has passed on the device from now on, and when now was.
inline std::pair<Nanos, DeviceLog> log_over(emulator::Machine& machine, unsigned device,
                                            Nanos span) {
  const auto now = [&] {
    const emulator::Machine::Lock lock(machine);
    return Nanos(lock->devices[device].now());
  };
  const Nanos begin = now();
  EXPECT_TRUE(eventually("the device's clock", [&] { return now() >= begin + span; }));
  return {begin, DeviceLog(machine, device)};
}

struct DeviceWindows {
  static constexpr Nanos kLong = Millis(20);  // the arbiter's
  static constexpr int kCount = 100;
  static constexpr Nanos kGrain = Micros(100);

  Nanos worst, all;  // busy in the worst of them; in all of them
};

// Measures the device's work from now on. The beginning of the arbiter's windows is unknown: it is
// found to a tenth of a millisecond.
inline DeviceWindows watch_windows(emulator::Machine& machine, unsigned device = 0) {
  constexpr Nanos kLong = DeviceWindows::kLong, kAll = DeviceWindows::kCount * kLong;
  const std::pair<Nanos, DeviceLog> seen = log_over(machine, device, kAll + kLong);
  const auto& [begin, log] = seen;
  Nanos least = kLong;
  for (Nanos first = begin; first < begin + kLong; first += DeviceWindows::kGrain) {
    Nanos worst{0};
    for (Nanos at = first; at < first + kAll; at += kLong)
      worst = std::max(worst, log.busy(at, at + kLong));
    least = std::min(least, worst);
  }
  return {.worst = least, .all = log.busy(begin, begin + kAll)};
}

// Under `shares` a program keeps to its limit over seconds: in all the windows together it may have
// no more than in one besides, what its bucket holds (40 ms of its limit), and `more`.
inline void expect_share_of_seconds(const DeviceWindows& windows, int request, Nanos more) {
  constexpr Nanos kLong = DeviceWindows::kLong;
  const Nanos share = kLong * request / 1000;
  EXPECT_LE(windows.all,
            (DeviceWindows::kCount + 1) * share * 102 / 100 + Millis(40) * request / 1000 + more);
  EXPECT_GT(windows.all, Nanos(0));
  std::printf("share %.4f\n", seconds(windows.all) / seconds(DeviceWindows::kCount * kLong));
}

// request: permille. In each window the program may have `more`: the work that runs on when its
// turn ends. In all of them together it may have no more than in one, plus `inexact` a window for
// what is uncertain.
inline void expect_share(const DeviceWindows& windows, int request, Nanos more,
                         Nanos inexact = Nanos(0)) {
  constexpr Nanos kLong = DeviceWindows::kLong;
  const Nanos share = kLong * request / 1000;
  EXPECT_LE(windows.worst, share + more + DeviceWindows::kGrain);
  EXPECT_LE(windows.all, (DeviceWindows::kCount + 1) * (share + inexact) + more);
  EXPECT_GT(windows.all, Nanos(0));
  std::printf("share %.4f, worst window %.4f\n",
              seconds(windows.all) / seconds(DeviceWindows::kCount * kLong),
              seconds(windows.worst) / seconds(kLong));
}

}  // namespace sluice
