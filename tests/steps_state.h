// What the processes of a plan share (tests/steps.h), and what this one is in it. Plain words, for
// the hook comes to steps as well, and has libc alone.
#pragma once

#include <stddef.h>
#include <stdint.h>

#include <atomic>

namespace sluice {

enum class Part { kNone, kClient, kDaemon, kStore };

struct StepsState {
  static constexpr size_t kLabels = 128, kLength = 48;
  struct Seen {
    std::atomic<uint32_t> state;  // 0: free, 1: being written, 2: there
    char label[kLength];
  };
  std::atomic<bool> armed;
  Part part;
  int signal;
  char label[kLength];
  std::atomic<int> hit;  // the pid of who got the signal; a futex
  Seen seen[kLabels];
};

// Where a program that is started finds its plan: the number of its part, a space, the file.
inline constexpr char kStepsVariable[] = "SLUICE_STEPS_PLAN";

struct StepsRole {
  StepsState* plan;
  Part part;
};
extern StepsRole steps_role;  // of this process and the children that it forks

}  // namespace sluice
