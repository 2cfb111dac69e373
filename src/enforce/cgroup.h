// Control groups of devices and instances, v1 and v2. They give the kernel's counter of an
// instance's use, its cores, a memory limit, and a CPU quota: the hard backstop behind the permits,
// for a program that never asks for one. Where groups cannot be written, Cgroups says so and names
// what is left: permits alone.
//
// The backstop stands above what permits allow, over a longer period. It must never stop a client
// that keeps to its permits (an operator runs on for 100 ms and more; permits of two windows may
// adjoin), only bound one that does not. Not thread-safe.
#pragma once

#include <array>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/clock.h"
#include "base/fd.h"
#include "base/result.h"
#include "enforce/slice_group.h"
#include "model/slice.h"

namespace sluice::node {

// The group of all instances weighs as much as so many ordinary programs, because the cores of a
// device are promised to its clients. A client of 5 % beside greedy neighbours and three busy loops
// of other programs got 1.0 % without a weight, 3.3 % with 8 and 4.9 % with 32. Other programs move
// to other cores, or use what the device leaves of this one. The platform's own processes weigh as
// much (kReserveNice).
inline constexpr int kDevicesWeight = 32;
inline constexpr int kReserveNice = -15;  // 28.5 times an ordinary program

struct Backstop {
  double margin = 1.2;  // × the limit
  Nanos period = Millis(500);
};

// The folder of each controller's hierarchy, as mounted; v2 has one folder for all. Empty: absent.
struct CgroupBases {
  std::string cpu, cpuacct, cpuset, memory;
  bool v2 = false;
};

struct CpuQuota {
  double millicores = 0;  // 0: none
  Nanos period{0};
};

// One group, in every hierarchy that it needs. Movable. remove() removes it, not its destructor:
// groups outlive the daemon, as instances do.
class Cgroup : public SliceGroup {
 public:
  Cgroup() = default;  // no group
  // A group that another program makes and removes, at `path` below the bases: in those hierarchies
  // in which it is there now.
  static Cgroup of_another(const CgroupBases& bases, const std::string& path);

  const std::string& name() const { return name_; }
  // Returns whether it is in each of its hierarchies: one that begins or ends may be in some.
  bool exists() const;

  Result<void> add(pid_t process);  // and all its threads
  Result<void> set_cores(const std::vector<int>& cores) override;
  Result<void> take_cores_of(const Cgroup& parent);
  // Its weight beside its siblings, in ordinary programs: its share of a contended core.
  Result<void> set_weight(int programs);
  Result<void> set_quota(double millicores, Nanos period) override;
  // Returns the quota that the kernel keeps now.
  CpuQuota quota() const;
  // At most so much memory, and no swap. Returns kUnavailable without a memory controller.
  Result<void> set_memory(Bytes most);
  bool killed_by_memory_limit() const override;
  std::vector<pid_t> processes() const override;
  // Returns whether the process is in the group, or in one below it, in every hierarchy.
  bool holds(pid_t process) const;
  void signal(int number) const override;
  // Returns the path of the kernel's counter, for CgroupCounter.
  const std::string& usage_file() const { return usage_file_; }
  Result<void> remove();  // REQUIRES: no process runs in it

 private:
  friend class Cgroups;
  std::string name_;
  std::vector<std::string> folders_;  // one per hierarchy
  // Empty without that controller.
  std::string cpu_folder_, cpuset_folder_, memory_folder_;
  std::string usage_file_;
  bool v2_ = false;
  bool whole_ = true;  // was found in each hierarchy
};

class Cgroups {
 public:
  // Detects what can be written below this process's own groups. `root` names the group that holds
  // all of ours. It exists, and is marked as in use, for as long as this object lives. `proc` is
  // for tests.
  static Cgroups detect(const std::string& root, const std::string& proc = "/proc/self");

  bool writable() const { return writable_; }
  // Whether Cgroup::set_memory() works.
  bool limits_memory() const { return limits_memory_; }
  // Returns "cgroup v1: CPU quota as backstop, cores by cpuset, use as the kernel counts it", or
  // why not and what is left.
  const std::string& describe() const { return description_; }

  // Makes (or finds) ROOT/path, e.g. "cpu0", "cpu0/INSTANCE", or "" for ROOT itself. Returns
  // kUnavailable if it is not writable.
  Result<Cgroup> open(const std::string& path) const;

  // Returns the groups below ROOT in which processes run, by path, e.g. "cpu0/INSTANCE".
  std::map<std::string, std::vector<pid_t>> populated() const;

  // Removes the groups of platforms that were killed whole: groups beside ROOT whose names begin
  // with `prefix` and that are not marked as in use. The kernel keeps those with processes in them.
  void remove_abandoned(const std::string& prefix) const;

 private:
  enum Controller { kCpu, kCpuacct, kCpuset, kMemory, kControllers };

  bool detect_v1(const std::string& mounts, const std::string& own);
  bool detect_v2(const std::string& mounts, const std::string& own);
  Result<void> probe();
  Result<void> mark_in_use();
  Result<void> try_quota() const;
  bool try_memory() const;
  std::vector<std::string> bases() const;  // each hierarchy's, once
  const std::string& marked_base() const { return v2_ ? base_v2_ : base_[kCpu]; }

  std::string root_;
  std::array<std::string, kControllers> base_;  // v1: each controller's folder; empty: absent
  std::string base_v2_;
  bool v2_ = false;
  bool writable_ = false, limits_memory_ = false;
  std::string description_;
  Fd in_use_;  // ROOT's folder below marked_base(), under flock()
};

// Returns the backstop's quota for a slice on a device of so many millicores.
double backstop_millicores(const Slice& slice, int device_millicores, const Backstop& backstop);

}  // namespace sluice::node
