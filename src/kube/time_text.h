// Times as the API server writes them, and of the wall clock. Free functions; any thread.
#pragma once

#include <string>

#include "base/clock.h"

namespace sluice::kube {

std::string second_time(UnixMillis at);                  // "2026-11-28T16:04:36Z"
std::string micro_time(UnixMillis at);                   // "2026-11-28T16:04:36.120000Z"
UnixMillis unix_millis(const std::string& second_time);  // 0: it is no time

// Returns whether `least` has passed since then, or the clock has been set back.
constexpr bool has_passed(UnixMillis since, UnixMillis wall, UnixMillis least) {
  return wall < since || wall - since >= least;
}

}  // namespace sluice::kube
