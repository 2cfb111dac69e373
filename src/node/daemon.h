// The node daemon: the reservations on this machine's devices, and the processes that hold them.
// Composed of parts, each with its own state: records, reservations, live processes, births.
// Instances outlive the daemon, and the next one adopts them.
//
// Belongs to one io_context with one thread; the arbiters have their own (arbiter_host.h).
#pragma once

#include <map>
#include <memory>
#include <optional>

#include "node/births.h"
#include "node/device_faults.h"
#include "node/exec_launcher.h"
#include "node/fork_launcher.h"
#include "node/gpu_stores.h"
#include "node/pod_changes.h"
#include "node/pod_launcher.h"
#include "node/program_environment.h"
#include "node/python_launcher.h"
#include "node/takeover.h"

namespace sluice::node {

// The request of POST /v1/instances.
struct StartRequest {
  InstanceId id;
  FunctionName function;
  int revision = 1;
  std::vector<PartRequest> parts;  // never empty
  int batch = 1;
  std::string arbiter;  // that the device must run; empty: any
  Birth birth;
  std::string log;  // absent: DATA/logs/ID.log
  pid_t owner = 0;  // the instance ends when this process does; 0: no owner
};

// The request of POST /v1/processes.
struct ProcessRequest {
  InstanceId id;
  pid_t pid = 0;
  // It shares models with that function's programs; empty: it is called by id.
  FunctionName function;
  std::vector<PartRequest> parts;  // never empty
};

// The request of POST /v1/pods: a Pod of another's, which is no instance, under a slice. It ends by
// DELETE, as an instance does, or is resized; its Pod goes on.
struct PodRequest {
  std::string uid;
  std::string name;  // NAMESPACE/NAME
  // Without a device: on the first one of that kind that has the space.
  PartRequest part;
  DeviceKind kind = DeviceKind::kCpu;

  InstanceId id() const { return "pod-" + uid; }
};

// The daemon's whole state, for people and the control loop.
struct DaemonView {
  struct Row {
    const InstanceRecord& record;
    Nanos used{0};     // busy time, cumulative within this generation
    Nanos ungated{0};  // of that, past the hook, on a GPU
    Bytes peak_memory = 0;
    std::optional<Bytes> memory_held;  // of a GPU, if it is counted
    std::string fault;                 // of a living one; empty: none
    Nanos outside{0};                  // CPU time of processes that have left its cgroup
  };
  std::string boot_id;
  uint32_t generation = 0;
  uint64_t version = 0;     // incremented at every change; begins anew with a generation
  bool backstop = false;    // the kernel holds programs that never ask for a permit
  std::string enforcement;  // how else slices are held, or what is missing: for people
  std::vector<Device> devices;
  std::map<DeviceId, GpuLoad> loads;  // of GPUs that answer
  // Of GPUs of which an instance that starts now has all SMs: why, for people.
  std::map<DeviceId, std::string> undivided;
  std::vector<Row> instances;
};

class Daemon {
 public:
  // Makes the directories, takes the lock (kConflict: another daemon has it), adopts live
  // instances.
  static Result<std::unique_ptr<Daemon>> open(asio::io_context& io, const Clock& clock,
                                              DaemonSettings settings);
  Daemon(const Daemon&) = delete;

  // Reserves and records the instance, and starts it. The same request again gets the same answer.
  Result<const InstanceRecord*> start(const StartRequest& request);
  Result<const InstanceRecord*> take_process(const ProcessRequest& request);
  Result<const InstanceRecord*> take_pod(const PodRequest& request);
  // Returns when the new permit is in force.
  // `parts`: all of the instance's, in their order. A part without a device keeps its own.
  Result<const InstanceRecord*> resize(const InstanceId& id, std::vector<PartRequest> parts);
  // As in LiveInstances.
  Result<void> stop(const InstanceId& id, Nanos drain) { return live_.stop(id, drain); }
  Result<void> end_program(const InstanceId& id, Nanos drain) {
    return live_.end_program(id, drain);
  }
  // Cordons a device, or ends that. A GPU that failed takes instances again once it is uncordoned;
  // the programs that were on it have been ended.
  Result<void> set_drained(const DeviceId& device, bool drained) {
    return faults_.set_drained(device, drained);
  }
  // Returns the environment for a program under the slice of a part.
  ProgramEnvironment environment(const InstanceRecord& r, size_t part = 0) const;
  // Ends helpers that are useless without the daemon; to be awaited before the loop ends.
  asio::awaitable<void> leave() { return mps_.quit(); }

  DaemonView view() const;
  // Returns after a change past `version` (DaemonView's), or after `patience`.
  asio::awaitable<void> change_after(uint64_t version, Nanos patience) {
    return changes_.after(version, patience);
  }
  const InstanceRecord* find(const InstanceId& id) const { return records_.find(id); }

 private:
  Daemon(asio::io_context& io, const Clock& clock, DaemonSettings settings, Takeover found);

  Result<void> begin(asio::io_context& io);
  void begin_births_anew();
  Result<std::string> address_for(const StartRequest& request) const;
  Result<void> can_be_born(const StartRequest& request) const;
  Result<void> enter_somewhere(const InstanceRecord& r, const PartRequest& part, DeviceKind kind);
  Result<void> can_be_pod(const StartRequest& request) const;
  Result<void> can_be_on(const std::vector<PartRequest>& parts, std::optional<uid_t> user) const;
  Result<void> can_be_held(const ProcessRequest& request) const;
  Result<Variables> variables_of(const InstanceRecord& r, size_t part) const;
  Result<Variables> template_variables(const InstanceRecord& r, size_t part) const;
  uid_t functions_mps_user() const;
  bool shares_mps_user(const StartRequest& q) const;
  Result<std::string> owner_on(const DeviceId& gpu, const Peer& peer) const;
  const Device* device(const DeviceId& id) const { return reservations_.ledger().find(id); }

  const DaemonSettings settings_;
  const Fd lock_, uids_lock_;
  const uid_t first_uid_;  // of instances
  Changes changes_;
  Records records_;
  std::unique_ptr<Enforcer> enforcer_;
  Reservations reservations_;
  MpsControls mps_;
  GpuStores stores_;
  LiveInstances live_;
  ZygoteHost zygote_;
  ForkLauncher forks_;
  ExecLauncher execs_;
  PythonTemplates python_templates_;
  PythonLauncher pythons_;
  std::optional<PodLauncher> pods_;  // of all instances, where they are Pods
  std::optional<PodChanges> pod_changes_;
  Births births_;
  DeviceFaults faults_;
  std::unique_ptr<GpuWatch> gpus_;  // ends first: it calls faults_
};

}  // namespace sluice::node
