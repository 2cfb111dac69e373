// An instance's holding on a device: a rectangle in space × time, and memory. Shares are integer
// permille; the amount that a quantum rounds up is charged. Plain values.
#pragma once

#include <compare>
#include <cstdint>

#include "base/clock.h"

namespace sluice {

using Bytes = int64_t;

// A share in thousandths of a whole (of a device's SMs or cores, of a time window).
struct Share {
  int permille = 0;

  constexpr auto operator<=>(const Share&) const = default;
  constexpr double fraction() const { return permille / 1000.0; }
};
inline constexpr Share kWhole{1000};
inline constexpr Share kNone{0};

constexpr Share operator+(Share a, Share b) {
  return {a.permille + b.permille};
}
constexpr Share operator-(Share a, Share b) {
  return {a.permille - b.permille};
}

// Rounds up to a multiple of `quantum` (> 0): a share that a device can hold.
constexpr Share round_up(Share s, Share quantum) {
  return {(s.permille + quantum.permille - 1) / quantum.permille * quantum.permille};
}

// A share of time. request: guaranteed in every window to an instance that has work; limit ≥
// request: the most that it may use, including idle time of others.
struct Quota {
  Share request;
  Share limit;

  constexpr auto operator<=>(const Quota&) const = default;
};

struct Slice {
  Share sm;     // share of the device's SMs or cores, a multiple of its sm_quantum
  Quota quota;  // share of time on them
  Bytes memory = 0;
  // Of a program that Sluice does not serve itself: the longest that each of its iterations (a
  // batch, a request) should take; 0: it runs for its throughput.
  Nanos slo{0};
  // Beyond so many ‰ of the shortest, an iteration is slow; 0: as the arbiter has it (1600).
  int tolerance = 0;

  constexpr auto operator<=>(const Slice&) const = default;
};

// Device share that a slice reserves: sm × request, in thousandths of a device, times 1000.
constexpr int64_t area(const Slice& s) {
  return static_cast<int64_t>(s.sm.permille) * s.quota.request.permille;
}

// The rectangle's place: its first permille in space, and in the window of time. Placement decides
// it and the `planned` arbiter keeps it. Instances of one HAS-GPU lane share sm_begin and sm.
struct Position {
  Share sm_begin;
  Share time_begin;

  constexpr auto operator<=>(const Position&) const = default;
};

}  // namespace sluice
