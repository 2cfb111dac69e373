// The start of a node daemon: it takes the locks of a single daemon, and finds what the earlier
// daemon left and what devices the machine has now. Free functions; before the daemon's loop runs.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "base/clock.h"
#include "gpu/gpu_watch.h"
#include "node/daemon_settings.h"
#include "node/enforcer.h"
#include "node/registry.h"
#include "node/uid_claim.h"

namespace sluice::node {

struct Takeover {
  Fd lock;        // of the data directory
  UidClaim uids;  // none if instances have the daemon's uid
  NodeState state;
  std::unique_ptr<GpuWatch> gpus;
  std::unique_ptr<Enforcer> enforcer;  // does not serve yet
  std::string mps_absent;              // why GPUs are not shared by MPS; empty: they are
  std::vector<int> zygote_cores;
};

// Makes the directories and takes the lock (kConflict: another daemon has it). Completes the
// settings.
Result<Takeover> take_over(const Clock& clock, DaemonSettings& settings);

// Marks the records whose processes have ended, or will never be ready, as gone, and returns these.
// Kills an instance that was starting, because the daemon that it waits for is dead, and one that
// has lost the process of a part. Where instances are Pods, one that was starting stays, without a
// process: it waits for nothing of the dead daemon's, and is born again.
std::vector<InstanceRecord> settle(std::vector<InstanceRecord>& records, bool same_boot,
                                   Born born = Born::kByTheDaemon);

// Returns the machine's devices. While an instance lives, the CPU devices stay those that it
// started on.
// `gpus`: as NVML describes them.
std::vector<LocalDevice> devices_now(const NodeState& before, bool same_boot, const CpuSplit& split,
                                     const std::vector<Device>& gpus, const std::string& node,
                                     const GpuSettings& gpu_settings);

// Sets the arbiter that the user fixed, on each device that can run it, and each device's window.
// Returns kInvalid, with the names that are allowed, if no device can run it.
Result<void> set_arbiters(std::vector<LocalDevice>& devices, const DaemonSettings& settings);

}  // namespace sluice::node
