// Enforces slices on this machine: the arbiters' host, the server that lends device memory,
// permit.sock and a socket for each slice, and a cgroup per slice as the hard backstop. It carries
// out the ledger's reservations, and decides nothing.
//
// Belongs to the daemon's loop, except the lookups, which run on permit.sock's thread.
#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "enforce/arbiter_host.h"
#include "enforce/cgroup.h"
#include "enforce/meter_cpu.h"
#include "enforce/permit_server.h"
#include "enforce/pod_group.h"
#include "enforce/quota_writes.h"
#include "enforce/stray_processes.h"
#include "gpu/gpu_watch.h"
#include "node/cpu_devices.h"
#include "node/registry.h"

namespace sluice::node {

// The prefix of all node daemons' cgroups; the rest distinguishes them.
inline constexpr std::string_view kCgroupPrefix = "sluice-node-";

struct EnforcerSettings {
  std::string permit_socket;
  std::string permit_sockets;  // the folder of slices' own, ID/sock; empty: none
  std::string memory_record;   // the record of what an earlier daemon has lent
  uid_t shared_uid = 0;        // of several programs, so no process is told by it; 0: none
  bool same_boot = true;       // that daemon ran in this boot, so its loans may be held
  uint32_t generation = 1;
  std::optional<PodCgroups> pods;  // if instances are Pods
  int reserve_millicores = 0;      // of no device
  std::vector<int> reserve_cores;  // empty: the reserve is a share of time
};

class Enforcer {
 public:
  // `gpus`: whose accounts give their use.
  static Result<std::unique_ptr<Enforcer>> start(const Clock& clock,
                                                 const std::vector<LocalDevice>& devices,
                                                 const GpuWatch& gpus, Cgroups cgroups,
                                                 const EnforcerSettings& settings);

  // From now on processes are served. Instances that an earlier daemon admitted must be known by
  // then: the processes of an unknown one run free.
  Result<void> serve();

  ~Enforcer();  // remaining processes stay in their groups
  Enforcer(const Enforcer&) = delete;

  // Makes all parts known, or none: cgroup, meter, arbiter. Their processes may register from now
  // on. An empty device runs the instance's arbiter from then on.
  Result<void> admit(const InstanceRecord& r);
  // Returns how many processes an instance is born with: one for each part on a CPU; on GPUs one
  // for all parts.
  size_t births_of(const InstanceRecord& r) const;
  // Puts a process, and its later children, under the slice of a part.
  Result<void> place(const InstanceRecord& r, pid_t pid, size_t part = 0);
  // Where instances are Pods: holds the record's Pod to the slice, as far as it is there. Returns
  // the first process of its program; nothing if that has not begun. `containers`: as in PodStatus.
  std::optional<ProcessIdentity> find_in_pod(const InstanceRecord& r,
                                             const std::vector<std::string>& containers);
  // A Pod is ready. Until then it may use the machine's reserve if that is more than its slice, so
  // that it loads in time; that use is not charged.
  void has_started(const InstanceRecord& r);
  // Returns pages for a process of the first part that is sent Go; others ask at permit.sock.
  Result<Attachment> attach(const InstanceRecord& r, int pidfd);
  // Applies the parts that the record has now. Returns when the new permits of all parts are in
  // force. If one fails, those of `before` are.
  Result<void> apply_parts(const InstanceRecord& r, const Parts& before);
  // Frees the shares; ends the instance's remaining processes (foreign processes go on, outside; a
  // Pod's are its kubelet's).
  void release(const InstanceRecord& r);

  // Reaps an instance that died unseen: removes what it left behind.
  void reap(const InstanceRecord& r);

  // Whether the kernel holds programs that never ask for a permit; how it does, or why not.
  bool has_backstop() const { return pods_ ? pods_->writable() : cgroups_.writable(); }
  std::string describe() const;

  // Has the meters of slices audit processes that use GPUs without pages, by the GPUs' accounts;
  // call it more often than these have news. The first that is charged for it is logged.
  void watch_ungated();

  // Writes quotas of groups that had to wait, and those of a Pod's new containers.
  void poll_quotas();

  // Polls foreign programs for processes that have left their cgroups, and, without cgroups, for
  // programs that nothing holds. Returns whether that has changed since the last poll.
  bool poll_strays();
  // Returns the fault of a live instance; empty if it has none.
  std::string fault_of(const InstanceId& id) const;
  // Returns the CPU time of its processes that have left its cgroup, cumulative.
  Nanos outside(const InstanceId& id);

  const std::string& arbiter_of(const DeviceId& device) const;   // the one that it runs
  std::map<InstanceId, ClientState> states();                    // summed over the parts of each
  std::optional<Bytes> memory_held(const InstanceId& id) const;  // of GPUs, if it is counted
  std::vector<pid_t> processes(const InstanceId& id) const;      // of its cgroups, if any
  // Returns the reason if the kernel has killed the instance at its memory limit.
  std::optional<std::string> killed_by_memory(const InstanceRecord& r) const;
  void signal(const InstanceId& id, int number) const;  // signals them
  // The slice that a process is under: that of this part of the instance. On GPUs a process is
  // under all parts, and this is the first.
  struct Holder {
    InstanceId id;
    size_t part = 0;
  };
  std::optional<Holder> slice_of(const Peer& peer) const;  // none: the process is under no slice

 private:
  struct HostedDevice {
    DeviceNumber number = 0;
    LocalDevice device;
    std::string arbiter;                           // the one that it runs
    std::shared_ptr<const DeviceAccount> account;  // a GPU's
  };
  // The client of one part.
  struct Client {
    ClientRef ref;
    MemoryAccount memory = 0;
    // None: cgroups cannot be written here, or the process of several GPUs is in the first part's.
    std::optional<Cgroup> cgroup;
    std::unique_ptr<PodGroup> pod;  // in place of it, where instances are Pods
    std::shared_ptr<LaterCounter> pod_counter;
    std::string pod_uid;                   // empty: not known yet
    ProcessIdentity joined;                // the Pod's process that asked for a permit last
    bool starting = false;                 // a Pod that is not ready yet
    QuotaWrites quota{Backstop{}.period};  // of the group
    ProcessIdentity process;
    uid_t uid = 0;                  // exclusive to its processes; 0: none
    uid_t owner = 0;                // whose processes belong to it when they connect to its socket
    bool counted_by_kernel = true;  // its use, in its cgroup or by its processes' clocks
    bool ungated = false;           // it used its GPU past the hook
    bool foreign = false;           // started by `sluice run`
    bool unheld = false;            // it has computed without a permit, and has no cgroup
    StrayProcesses strays;

    SliceGroup* group() { return cgroup ? static_cast<SliceGroup*>(&*cgroup) : pod.get(); }
    const SliceGroup* group() const { return const_cast<Client*>(this)->group(); }
  };

  Enforcer(const Clock& clock, const EnforcerSettings& settings, Cgroups cgroups,
           MemoryRecord record);
  Result<Client> admit_part(const InstanceRecord& r, size_t part);
  Result<void> apply_part(Client& client, const InstanceRecord& r, const Part& part);
  void forget(const Client& client);
  Result<void> limit(Client& client, const Part& part);
  Result<void> limit_memory(const Client& client, const InstanceRecord& r, const Part& part);
  Result<void> run_arbiter(HostedDevice& hosted, const std::string& name);
  Result<std::unique_ptr<Meter>> make_meter(const HostedDevice& hosted, Share sm, Client& c) const;
  void hold_pod(Client& c, const std::string& uid);
  void hold_pods();
  Result<void> place_in_pod(Client& c, const InstanceRecord& r);
  Result<void> open_socket(const InstanceId& id);
  void empty(Cgroup group, bool foreign);
  void remove_empty_groups();
  Result<Placement> look_up(const Peer& peer, uint32_t device);
  bool is_under(const Client& c, const Peer& peer) const;
  static bool is_unheld(const Client& c, int attached);

  const Clock& clock_;
  const PermitServerConfig serving_;
  const Backstop backstop_;
  const std::string permit_sockets_;
  const uid_t shared_uid_;
  const Cgroups cgroups_;
  const std::optional<PodCgroups> pods_;
  const int reserve_millicores_;
  const std::vector<int> reserve_cores_;
  std::map<DeviceId, HostedDevice> devices_;
  policy::ClientId last_client_ = 0;
  std::vector<Cgroup> left_;  // of released slices, with processes still exiting

  // Written by the loop under the mutex; read by the loop without it, and by lookups under it.
  std::mutex mutex_;
  std::map<InstanceId, std::vector<Client>> clients_;  // one per part, in their order
  std::unique_ptr<ArbiterHost> host_;
  MemoryBroker broker_;
  std::unique_ptr<PermitServer> server_;  // ends before host and broker, which it points to
};

}  // namespace sluice::node
