// The Cluster port: the one seam between the control loop and the world. The local adapter drives
// this machine's node daemon and gateway; Kubernetes and the simulator are others.
//
// One thread, the loop's. Calls block for milliseconds, also when what they call hangs. A call that
// fails changed nothing that the next observe() would not show.
#pragma once

#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "base/histogram.h"
#include "base/result.h"
#include "model/device.h"
#include "model/instance.h"

namespace sluice::control {

// An instance as its node sees it.
struct ObservedInstance {
  Instance instance;
  bool foreign = false;  // a user's own process under a slice: not ours to scale
  std::string socket;
  int64_t pid = 0;
  uint64_t start_time = 0;  // of the process, in the kernel's ticks
  int64_t ready_after_ms = 0;
  Nanos used{0};     // busy time so far, at its own sm
  Nanos ungated{0};  // of that, on a GPU past the hook
  Nanos outside{0};  // CPU time of processes that have left its cgroup
  Bytes peak_memory = 0;
  std::optional<Bytes> memory_held;  // of a GPU, where it is counted
  std::string device_fault;          // of its device, for which its node ends it
  std::string error;                 // why it is gone
  UnixMillis ended = 0;              // when; 0: it lives, or its node does not tell
  bool stopped = false;              // it is gone because it was asked to stop, by any client
  bool node_fault = false;           // its node ended its start: its daemon died, its disk was full
};

inline bool alive(const ObservedInstance& o) {
  return o.instance.state != InstanceState::kGone;
}

// A function in this namespace belongs to `sluice profile`, which starts and stops its instances.
inline constexpr std::string_view kProfiling = "sluice-profile";
// Whether the loop decides about it.
inline bool ours(const ObservedInstance& o) {
  return !o.foreign && o.instance.function.space != kProfiling;
}

// A function's traffic, counted since the gateway started.
struct ObservedTraffic {
  FunctionName function;
  uint64_t requests = 0, ok = 0, invalid = 0, shed = 0, failed = 0, timed_out = 0, gone = 0,
           late = 0;
  uint64_t cold_starts = 0, retried = 0, inferences = 0;
  int queued = 0, in_flight = 0;
  double concurrency_seconds = 0;
  uint64_t gaps = 0;
  double gap_sum = 0, gap_squares = 0;
  Histogram latency;
};

// Whether functions can run on it: the model server computes on CPUs.
inline bool serves(const Device& d) {
  return d.kind == DeviceKind::kCpu;
}

// What a device says of itself at the moment.
struct DeviceLoad {
  int busy_percent = 0;
  Bytes memory_used = 0;
};

struct Observation {
  bool node_there = false;  // false: devices and instances are unknown now, not empty
  UnixMillis node_seen = 0, gateway_seen = 0;  // when each answered last; 0: never
  std::string boot_id;
  bool backstop = true;                     // the kernel holds programs that never ask for a permit
  std::string enforcement;                  // what else holds the slices, or what is missing
  std::vector<Device> devices;              // by id
  std::map<DeviceId, DeviceLoad> loads;     // of GPUs that answer
  std::vector<ObservedInstance> instances;  // by id
  bool gateway_there = false;
  UnixMillis gateway_started = 0;
  int64_t routes_version = -1;
  // A function that is not listed counts what it counted in the observation before.
  std::vector<ObservedTraffic> traffic;
  std::set<InstanceId> busy;  // have a request of the gateway's in hand
  // How long ago an instance's oldest request ran into its function's timeout, with no answer from
  // the instance since. An instance that is not listed has no such request.
  std::map<InstanceId, Nanos> overdue;
};

// What an instance is started with, beyond what the decision said.
struct StartOrder {
  Instance instance;
  ModelSpec model;
  Batching batching;
};

class Cluster {
 public:
  virtual ~Cluster() = default;
  virtual Observation observe() = 0;
  virtual Result<void> start(const StartOrder& order) = 0;
  virtual Result<void> resize(const InstanceId& id, const Slice& slice,
                              const Position& position) = 0;
  virtual Result<void> stop(const InstanceId& id,
                            Nanos drain) = 0;  // also forgets one that is gone
  virtual Result<void> set_drained(const DeviceId& device, bool drained) = 0;
  // The instances that have a request in hand under that table: of the others, who gets no more by
  // it has none and will have none.
  virtual Result<std::set<InstanceId>> set_routes(const nlohmann::json& table) = 0;
};

}  // namespace sluice::control
