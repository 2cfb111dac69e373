// The settings of a node daemon. A plain value.
#pragma once

#include <string>

#include "base/clock.h"
#include "node/cpu_devices.h"
#include "node/data_paths.h"
#include "node/gpu_devices.h"
#include "node/pods.h"
#include "node/type_prices.h"

namespace sluice::node {

struct DaemonSettings {
  DataPaths paths;
  std::string runtime;    // path of sluice-runtime; empty: programs alone are served
  std::string libraries;  // the folder of the libraries that programs preload
  CpuSettings cpu;
  GpuSettings gpu;
  TypePrices prices;    // override those of `cpu` and `gpu`
  std::string arbiter;  // of all devices that can run it; empty: a device's first instance chooses
  // The platform's bundle's, for a device whose first instance names none (policy::arbiter_on).
  std::string default_arbiter = "planned";
  bool own_uids = true;  // as root, every instance runs under its own
  uid_t first_uid = 0;   // of the block for instances; 0: the first free one (uid_claim.h)
  Nanos ready_patience = Seconds(120);  // from Go to Ready
  Bytes weights = 0;                    // that templates may share; 0: half of the machine's memory
  Nanos grace = Seconds(30);            // from SIGTERM to SIGKILL, if the request gives no time
  Nanos replaced_within = Seconds(30);  // a ready instance whose device fails ends after it
  Pods* pods = nullptr;                 // of the instances, where they are Pods
  std::string pod_cgroups = "/sys/fs/cgroup";  // where the hierarchies of Pods are mounted
};

}  // namespace sluice::node
