// An attacker: one process with many connections from one address, all of which do the same.
// Not thread-safe; the state is shared with the process.
#pragma once

#include <sys/types.h>

#include <atomic>
#include <cstdint>
#include <string>

namespace sluice::bench {

// What each connection does.
struct Habit {
  int connections = 0;
  std::string opening;         // sent first
  std::string again;           // sent behind it, over and over; empty: nothing
  uint64_t most = UINT64_MAX;  // bytes of that
  int bytes_per_second = 0;    // of that, for one connection; 0: as fast as the socket takes it
  bool reads = true;
  bool comes_back = true;  // opens a connection in the place of one that was closed
};

struct CrowdState {
  std::atomic<int> open{0}, most_open{0};
  std::atomic<uint64_t> tried{0}, opened{0}, refused{0}, closed{0}, sent{0}, received{0};
};

class Crowd {
 public:
  Crowd(uint16_t port, const Habit& habit);  // forks
  ~Crowd();                                  // kills it
  Crowd(const Crowd&) = delete;

  const CrowdState& state() const { return *state_; }
  pid_t pid() const { return pid_; }

 private:
  CrowdState* state_;
  pid_t pid_;
};

}  // namespace sluice::bench
