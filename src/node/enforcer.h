// Slices made true on this machine: the arbiters' host, the desk that lends device memory,
// permit.sock and one for each slice, and a cgroup per slice as the hard backstop. What the ledger
// promised comes in; nothing here decides.
//
// Belongs to the daemon's loop, but for the lookups, which come from permit.sock's thread.
#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "node/arbiter_host.h"
#include "node/cgroup.h"
#include "node/cpu_devices.h"
#include "node/gpu_watch.h"
#include "node/meter.h"
#include "node/permit_server.h"
#include "node/registry.h"
#include "node/stray_processes.h"
#include "node/ungated_use.h"

namespace sluice::node {

// What the cgroups of all node daemons' are called, and then what tells one from another.
inline constexpr std::string_view kCgroupPrefix = "sluice-node-";

struct EnforcerSettings {
  std::string arbiter;  // policy::make_arbiter's name
  std::string permit_socket;
  std::string permit_sockets;  // the folder of slices' own, ID/sock
  std::string memory_record;   // the file in which a daemon finds what the one before it has lent
  bool same_boot = true;       // that daemon ran, and what it lent may be held
  uint32_t generation = 1;
};

class Enforcer {
 public:
  // `gpus`: whose accounts say what was used of them.
  static Result<std::unique_ptr<Enforcer>> start(const Clock& clock,
                                                 const std::vector<LocalDevice>& devices,
                                                 const GpuWatch& gpus, Cgroups cgroups,
                                                 const EnforcerSettings& settings);

  // From now on processes are heard. What a daemon before us has admitted should be by then: one
  // that is not known runs free.
  Result<void> serve();

  ~Enforcer();  // what still runs stays in its group
  Enforcer(const Enforcer&) = delete;

  // Makes the slice known: cgroup, meter, arbiter. Its processes may register from now on.
  Result<void> admit(const InstanceRecord& r);
  // Puts a process, and what it will fork, under the slice.
  Result<void> place(const InstanceRecord& r, pid_t pid);
  // Pages for a process that is sent Go; others ask at permit.sock.
  Result<Attachment> attach(const InstanceRecord& r, int pidfd);
  // Returns when the new permit is in force.
  Result<void> resize(const InstanceRecord& r);
  // Frees the share; ends what is left of the instance (foreign processes go on, outside).
  void release(const InstanceRecord& r);

  // What an instance that died unseen has left behind.
  void bury(const InstanceRecord& r);

  // Whether the kernel holds programs that never ask for a permit; what it does, or why not.
  bool has_backstop() const { return cgroups_.writable(); }
  std::string describe() const;

  // Charges slices for what their processes do on GPUs past the hook, by the GPUs' accounts; worth
  // the while a few times a second. Whoever begins it is logged.
  void charge_ungated();

  // Polls foreign programs for processes that have left their cgroups, and, where there are no
  // cgroups, for programs that nothing holds. Returns whether that has changed since the last poll.
  bool poll_strays();
  // What is wrong with a living instance; empty: nothing.
  std::string fault_of(const InstanceId& id) const;
  // CPU time of its processes that have left its cgroup, cumulative.
  Nanos outside(const InstanceId& id);

  std::map<InstanceId, ClientState> states();                    // of all clients
  std::optional<Bytes> memory_held(const InstanceId& id) const;  // of a GPU, where it is counted
  std::vector<pid_t> processes(const InstanceId& id) const;      // of its cgroup, where it has one
  // Why the instance is gone, where the kernel has killed it at its memory limit.
  std::optional<std::string> killed_by_memory(const InstanceRecord& r) const;
  void signal(const InstanceId& id, int number) const;  // signals them
  // Whose slice a process is under; none: it is under none.
  std::optional<InstanceId> slice_of(const Peer& peer) const;

 private:
  struct HostedDevice {
    DeviceNumber number = 0;
    LocalDevice device;
    std::shared_ptr<const DeviceAccount> account;  // a GPU's
    UngatedUse ungated;
  };
  struct Client {
    ClientRef ref;
    MemoryAccount memory = 0;
    std::optional<Cgroup> cgroup;  // none: they cannot be written here
    ProcessIdentity process;
    uid_t uid = 0;                  // its own, of what we started
    uid_t owner = 0;                // whose processes belong to it when they come to its socket
    bool counted_by_kernel = true;  // what it uses, in its cgroup or by its processes' clocks
    bool ungated = false;           // it used its GPU past the hook
    bool foreign = false;           // of `sluice run`
    bool unheld = false;            // it has computed without a permit, and has no cgroup
    StrayProcesses strays;
  };

  Enforcer(const Clock& clock, const EnforcerSettings& settings, Cgroups cgroups,
           MemoryRecord record);
  Result<void> limit(const Client& client, const InstanceRecord& r);
  Result<void> limit_memory(const Client& client, const InstanceRecord& r);
  Result<std::unique_ptr<Meter>> make_meter(const HostedDevice& hosted, Share sm,
                                            const Client& c) const;
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
  const Cgroups cgroups_;
  std::map<DeviceId, HostedDevice> devices_;
  policy::ClientId last_client_ = 0;
  std::vector<Cgroup> left_;  // of slices that are released, with processes still on their way out

  // Written by the loop under the mutex, read by it without, and by lookups under it.
  std::mutex mutex_;
  std::map<InstanceId, Client> clients_;
  std::unique_ptr<ArbiterHost> host_;
  MemoryDesk desk_;
  std::unique_ptr<PermitServer> server_;  // ends before host and desk, which it points to
};

}  // namespace sluice::node
