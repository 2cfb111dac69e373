// State shared by the processes of a plan (tests/support/steps.h), and this process's role in it.
// Plain words, because the hook also reaches steps, and has only libc.
#pragma once

#include <stddef.h>
#include <stdint.h>

#include <atomic>

namespace sluice {

enum class Role { kNone, kClient, kDaemon, kStore };

struct StepsState {
  static constexpr size_t kLabels = 128, kLength = 48;
  struct Seen {
    std::atomic<uint32_t> state;  // 0: free, 1: being written, 2: written
    char label[kLength];
  };
  std::atomic<bool> armed;
  Role role;
  int signal;
  char label[kLength];
  std::atomic<int> hit;  // the pid of the process that got the signal; a futex
  Seen seen[kLabels];
};

// Where a started program finds its plan: the number of its role, a space, the file.
inline constexpr char kStepsVariable[] = "SLUICE_STEPS_PLAN";

struct StepsRole {
  StepsState* plan;
  Role role;
};
extern StepsRole steps_role;  // of this process and the children that it forks

}  // namespace sluice
