// Two programs that want one GPU, seen by the device's own clock: a neighbour that keeps the device
// busy and writes down when it was not running, and a probe whose short kernels stamp when they
// began and ended. It needs a real driver: the emulated one registers no memory of the host.
//
// Not thread-safe. A call that fails ends the process, as in gpu.h.
#pragma once

#include <sys/types.h>

#include <functional>
#include <vector>

#include "bench/gpu/gpu.h"

namespace sluice::bench {

// One of a neighbour's kernels: so many blocks, each of which takes an SM's place for `block_ns`,
// not counting the time in which the device was given to others. period_ns: launched so often, and
// no more are queued; 0: some are queued at all times.
struct Load {
  unsigned blocks, threads, shared_bytes;
  uint64_t block_ns, period_ns = 0;
};

struct Gap {
  uint64_t begin_ns, end_ns;  // on the device's clock
};

// A process with a context of its own that launches one kernel after the other. Their first block
// writes down each time in which it did not run for 5 us or more, so gaps are exact only where a
// kernel's blocks all run at once.
class Neighbour {
 public:
  // Forks: before this process has a context. below: its priority as a client of MPS is the lower.
  explicit Neighbour(bool below = false);
  ~Neighbour();  // ends it; it is never killed at work
  Neighbour(const Neighbour&) = delete;

  void work(const Load& load);    // returns when the first of them have ended
  void rest();                    // returns when the last has ended
  uint64_t kernels() const;       // ended since work()
  std::vector<Gap> gaps() const;  // since work(); the last 65,536

  struct Page;

 private:
  Page* page_;
  pid_t pid_;
  uint64_t kernels_before_ = 0, gaps_before_ = 0;
};

// Launches in one stream kernels of `blocks` blocks that take 4 us or another time.
class Probe {
 public:
  struct Stamp {
    uint64_t begin_ns, end_ns;  // on the device's clock; of the first block, of the last one
  };

  // The stream is as the driver makes one, or of the highest priority.
  Probe(const Gpu& gpu, unsigned blocks, unsigned threads, uint64_t ns, bool above = false);
  ~Probe();
  Probe(const Probe&) = delete;

  // Launches every so many ns (0: without a pause) for so long, and waits for the last.
  std::vector<Stamp> launch_every(uint64_t period_ns, uint64_t for_ns);
  // Launches one after a random pause, and waits for it; returns the us from call to end of each.
  std::vector<double> one_at_a_time(uint64_t for_ns);

 private:
  void launch(size_t number);

  const unsigned blocks_, threads_;
  const uint64_t ns_;
  Stamp* stamps_;
  CUdeviceptr address_ = 0;
  CUfunction kernel_ = nullptr;
  CUstream stream_ = nullptr;
};

}  // namespace sluice::bench
