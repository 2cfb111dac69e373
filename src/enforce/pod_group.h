// The cgroups of a Pod. Its kubelet and its container runtime make and remove them, give them
// limits and put processes into them; the slice only lowers CPU quotas, and the containers' cores.
// An instance's Pod ends with its slice; what is taken from another Pod can be given back.
//
// Version 2: the quota is the Pod's own group's, so it bounds the sum of its containers. Their own
// limits stay as the kubelet gave them, below it.
//
// Version 1: the quota is each container's. The Pod's own group is read and never written: the
// kernel refuses a container above its Pod, so a container that starts, or starts again, later
// would fail. What the kubelet gave the Pod is thus still there to read after a restart of the
// daemon: no container is raised above it. Beside each other, several containers that pass no gate
// may use the bound several times.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "enforce/cgroup.h"

namespace sluice::node {

// The hierarchies of a machine whose kubelet makes the groups. A value.
class PodCgroups {
 public:
  PodCgroups() = default;  // none
  // `mount`: where the machine's hierarchies are mounted, as /sys/fs/cgroup.
  static PodCgroups detect(const std::string& mount);

  bool readable() const { return !bases_.cpu.empty() && !bases_.cpuacct.empty(); }
  bool writable() const { return writable_; }
  const std::string& describe() const { return description_; }
  const CgroupBases& bases() const { return bases_; }

  // Returns the groups below which a kubelet makes those of Pods, relative to each base.
  std::vector<std::string> kubepods() const;
  // Returns the Pod's group below one of them; nothing if it is not there.
  std::optional<std::string> find(const std::vector<std::string>& kubepods,
                                  const std::string& uid) const;

 private:
  CgroupBases bases_;
  bool writable_ = false;
  std::string description_ = "no cgroups of Pods";
};

// Returns the name of the container's group that the process is in, below the group of the Pod;
// empty if it is in the Pod's own, nothing if it is not the Pod's. Any thread.
std::optional<std::string> container_of(pid_t pid, const std::string& uid);

// Belongs to the daemon's loop.
class PodGroup : public SliceGroup {
 public:
  explicit PodGroup(PodCgroups cgroups) : cgroups_(std::move(cgroups)) {}

  // The Pod of that UID, whose groups may come later.
  void begin(const std::string& uid);
  // Finds the groups that are there now, and holds the containers to the cores and the quota. To be
  // called repeatedly: a runtime writes a container's limits after it has made its group.
  void hold();

  // Leaves the Pod to the limits that the kubelet gave, as far as these are known.
  void give_back();

  // Both hold in containers that come later, too. They do not fail: fault() says what is refused.
  Result<void> set_cores(const std::vector<int>& cores) override;
  Result<void> set_quota(double millicores, Nanos period) override;
  // Returns what the kernel refused at the last hold(); empty: nothing.
  const std::string& fault() const { return fault_; }

  // The container whose processes the next three mean; empty: all of the Pod's.
  void choose(const std::string& container) { chosen_ = container; }
  bool killed_by_memory_limit() const override;
  std::vector<pid_t> processes() const override;
  void signal(int number) const override;

  // Returns the processes of a container; `id`: its group's name, or the runtime's id for it.
  std::vector<pid_t> processes_of(const std::string& id) const;
  // Returns the path of the kernel's counter of the whole Pod; empty if it is not there.
  std::string usage_file() const { return own_.group.usage_file(); }

 private:
  struct Held {
    Cgroup group;
    double given = 0;        // millicores of its own limit, by the kubelet; 0: none, or not known
    std::vector<int> cores;  // as set; empty: the kubelet's
  };
  void find_groups();
  Result<void> hold_cores(Held& container) const;
  // To at most `above` too, unless that is 0.
  Result<void> hold_quota(Held& held, double above) const;
  void note(const Held& held, const Result<void>& done);
  bool is_chosen(const std::string& container) const;

  PodCgroups cgroups_;
  std::string uid_;
  std::vector<std::string> kubepods_;
  int misses_ = 0;                          // how often the Pod was not below them
  Held own_;                                // the Pod's
  std::map<std::string, Held> containers_;  // by the names of their groups
  std::string chosen_;
  std::vector<int> cores_;
  double millicores_ = 0;  // 0: no quota yet
  Nanos period_{0};
  std::string fault_;
};

}  // namespace sluice::node
