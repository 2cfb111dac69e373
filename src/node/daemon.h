// The node daemon: what this machine's devices have promised to whom, and the processes that hold
// it. Every change of a reservation is on disk before it takes effect, so that a daemon that dies
// at any moment gives nothing away when it comes back; instances outlive it.
//
// Belongs to one io_context with one thread; the arbiters have their own (arbiter_host.h).
#pragma once

#include <boost/asio/steady_timer.hpp>
#include <map>
#include <memory>
#include <optional>
#include <set>

#include "base/clock.h"
#include "node/enforcer.h"
#include "node/gpu_devices.h"
#include "node/gpu_stores.h"
#include "node/gpu_watch.h"
#include "node/instance_launcher.h"
#include "node/ledger.h"
#include "node/mps_controls.h"
#include "node/program_environment.h"
#include "node/registry.h"
#include "node/uid_claim.h"
#include "node/zygote_host.h"

namespace sluice::node {

struct DaemonSettings {
  DataPaths paths;
  std::string runtime;  // path of sluice-runtime
  CpuSettings cpu;
  GpuSettings gpu;
  std::string arbiter = "planned";
  bool own_uids = true;  // as root, every instance runs under its own
  uid_t first_uid = 0;   // of the block for instances; 0: the first that is free (uid_claim.h)
  Nanos ready_patience = Seconds(120);  // from Go to Ready
  Bytes weights = 0;                    // that templates may share; 0: half of the machine's memory
  Nanos grace = Seconds(30);  // from being asked to end to being killed, where nobody says how long
};

// What POST /v1/instances asks for.
struct StartRequest {
  InstanceId id;
  FunctionName function;
  int revision = 1;
  DeviceId device;
  Slice slice;
  std::optional<Position> position;  // absent: the first free one
  int batch = 1;
  ModelSpec model;
  Batching batching;
  std::string log;  // absent: DATA/logs/ID.log
  pid_t owner = 0;  // it ends when this process does; 0: nobody's
};

// What POST /v1/processes asks for.
struct ProcessRequest {
  InstanceId id;
  pid_t pid = 0;
  FunctionName function;  // with whose other programs it shares models; no name: it is called by id
  DeviceId device;
  Slice slice;
  std::optional<Position> position;
};

// All there is to know, for people and the control loop.
struct DaemonView {
  struct Row {
    const InstanceRecord& record;
    Nanos used{0};            // busy time, cumulative within this generation
    Nanos ungated{0};         // of that, past the hook, on a GPU
    uint32_t sm_refusal = 0;  // its driver's error, where that does not hold it to its SMs
    Bytes peak_memory = 0;
    std::optional<Bytes> memory_held;  // of a GPU, where it is counted
    std::string fault;                 // of a living one; empty: none
    Nanos outside{0};                  // CPU time of processes that have left its cgroup
  };
  std::string boot_id;
  uint32_t generation = 0;
  uint64_t version = 0;     // one more at every change; begins anew with a generation
  bool backstop = false;    // the kernel holds programs that never ask for a permit
  std::string enforcement;  // what else holds the slices, or what is missing: for people
  std::vector<Device> devices;
  std::map<DeviceId, GpuLoad> loads;  // of GPUs that answer
  std::vector<Row> instances;
};

class Daemon {
 public:
  // Makes the directories, takes the lock (kConflict: another daemon has it), adopts what lives.
  static Result<std::unique_ptr<Daemon>> open(asio::io_context& io, const Clock& clock,
                                              DaemonSettings settings);

  // Reserved, on disk, and on its way. The same request again is answered alike.
  Result<const InstanceRecord*> start(const StartRequest& request);
  Result<const InstanceRecord*> take_process(const ProcessRequest& request);
  // Returns when the new permit is in force.
  Result<const InstanceRecord*> resize(const InstanceId& id, const Slice& slice,
                                       const std::optional<Position>& position);
  // No new work; what it has it finishes, for at most `drain`. A foreign process goes on, free of
  // its slice. One that is gone is forgotten.
  Result<void> stop(const InstanceId& id, Nanos drain);
  // Ends a foreign slice's processes as well: SIGTERM, and after `drain` SIGKILL, each when MPS has
  // let them go.
  Result<void> end_program(const InstanceId& id, Nanos drain);
  // A GPU that failed takes instances again once somebody says so; the programs that were on it
  // have been ended.
  Result<void> set_drained(const DeviceId& device, bool drained);
  // What a process that it has put under a slice is to be started with.
  ProgramEnvironment environment(const InstanceRecord& r) const;
  // What has nothing to do without us ends; to be awaited before the loop ends.
  asio::awaitable<void> leave();

  DaemonView view() const;
  // Returns when there has been a change after `version` (DaemonView's), or after `patience`.
  asio::awaitable<void> change_after(uint64_t version, Nanos patience);
  const InstanceRecord* find(const InstanceId& id) const;
  const Ledger& ledger() const { return ledger_; }

 private:
  // What a record does not say: the ties to a living process.
  struct Live {
    Fd pidfd;
    Channel control;        // closed where it was adopted or is foreign
    bool unwanted = false;  // stopped before it was born
    std::string fault;      // what it said before it died
  };

  Daemon(asio::io_context& io, const Clock& clock, DaemonSettings settings, Fd lock, UidClaim uids,
         NodeState state, std::unique_ptr<Enforcer> enforcer, std::unique_ptr<GpuWatch> gpus,
         std::string mps_absent, std::vector<int> zygote_cores);

  static std::vector<InstanceRecord> settle(std::vector<InstanceRecord>& records, bool same_boot);
  Result<void> adopt();
  void listen_for_faults();
  void fail(const GpuFault& fault);
  asio::awaitable<void> charge_ungated();
  asio::awaitable<void> watch_strays();
  asio::awaitable<void> keep_logs_small();
  void end_programs_on(const Device& device);
  Result<void> drain(const DeviceId& device, bool drained, const std::string& fault);
  Result<Promise> promise(const InstanceId& id, const DeviceId& device, const Slice& slice,
                          const std::optional<Position>& position);
  Result<void> enter(InstanceRecord record, const std::optional<Position>& position);
  asio::awaitable<void> launch(InstanceId id);
  asio::awaitable<Result<void>> raise(InstanceId id, Birth birth);
  asio::awaitable<void> watch(InstanceId id);
  asio::awaitable<void> kill_later(InstanceId id, ProcessIdentity process, Nanos patience);
  asio::awaitable<void> stop_with_owner(InstanceId id, ProcessIdentity owner);
  asio::awaitable<void> end_processes(Instance i, Nanos drain);
  std::vector<ProcessIdentity> processes_of(const Instance& i) const;
  Result<std::string> owner_on(const DeviceId& gpu, const Peer& peer) const;
  bool follow_family(InstanceRecord& r);
  void kill_now(const InstanceId& id);
  void end(const InstanceId& id, const std::string& why);
  void forget_old();

  InstanceRecord* find_record(const InstanceId& id);
  Result<void> save();  // after every change of the state
  void tell_change();   // who waits for one

  asio::io_context& io_;
  const Clock& clock_;
  const DaemonSettings settings_;
  const Fd lock_, uids_lock_;
  Registry registry_;
  NodeState state_;
  Ledger ledger_;
  UidPool uids_;
  std::unique_ptr<Enforcer> enforcer_;
  ZygoteHost zygote_;
  InstanceLauncher launcher_;
  MpsControls mps_;
  GpuStores stores_;
  std::map<InstanceId, Live> live_;
  uint64_t version_ = 0;
  std::set<asio::steady_timer*> waiting_;  // each a change_after(), woken by cancelling
  std::unique_ptr<GpuWatch> gpus_;         // ends first: it calls us
};

}  // namespace sluice::node
