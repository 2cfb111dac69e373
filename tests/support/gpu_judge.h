// Measures from outside what programs used of a GPU: by the emulated device's log, or on a real one
// by the stamps of the programs' kernels. Thread-safe.
#pragma once

#include <sys/types.h>

#include <memory>
#include <optional>
#include <string>

#include "arbiters/arbiter.h"
#include "base/clock.h"

namespace sluice::bench {

class GpuJudge {
 public:
  virtual ~GpuJudge() = default;

  // A program is about to start. Returns the file for its kernels' stamps; "" if none is needed.
  virtual std::string expect(policy::ClientId id) = 0;
  virtual void started(policy::ClientId id, pid_t pid) = 0;
  virtual void stopped(policy::ClientId id) = 0;

  // Returns how long the device worked for the program, in all.
  virtual Nanos used(policy::ClientId id) = 0;
  // Returns the first of the program's work that began after a moment; the end of its last.
  virtual std::optional<Time> began_after(policy::ClientId id, Time moment) = 0;
  virtual std::optional<Time> last_end(policy::ClientId id) = 0;
};

// Makes the emulated machine in a folder, and names it in SLUICE_EMULATED_GPU. side_by_side: its
// programs share the device as clients of MPS do.
std::unique_ptr<GpuJudge> judge_by_log(const std::string& folder, bool side_by_side);
// Watches the stamps on a thread of its own.
std::unique_ptr<GpuJudge> judge_by_stamps(const std::string& folder);

}  // namespace sluice::bench
