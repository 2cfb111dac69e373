// Control groups of devices and instances, v1 and v2: the kernel's counter of what an instance
// uses, its cores, a CPU quota as the hard backstop behind the permits, for a program that never
// asks, and a memory limit. Where groups cannot be written, Cgroups says so and what is left:
// permits alone.
//
// The backstop stands above what permits allow, over a longer period: it must never stop somebody
// who keeps to them (an operator runs on for 100 ms and more; permits of two windows may adjoin),
// only bound who does not. Not thread-safe.
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
#include "model/slice.h"

namespace sluice::node {

// The group of all instances weighs as much as so many ordinary programs. A core that is a device
// is promised: with three busy loops of other programs on it and no weight, a client of 5 % beside
// greedy neighbours got 1.0 %; with 8, 3.3; with 32, 4.9. Other programs move to other cores, or
// have what the device leaves of this one. The platform's own processes weigh as much
// (kReserveNice).
inline constexpr int kDevicesWeight = 32;
inline constexpr int kReserveNice = -15;  // 28.5 times an ordinary program

struct Backstop {
  double margin = 1.2;  // × the limit
  Nanos period = Millis(500);
};

// One group, in every hierarchy that it needs. Movable; removed by remove(), not by its destructor:
// groups outlive the daemon, as instances do.
class Cgroup {
 public:
  const std::string& name() const { return name_; }

  Result<void> add(pid_t process);  // and all its threads
  Result<void> set_cores(const std::vector<int>& cores);
  // Beside its siblings, in ordinary programs: of a core that all want it gets so many parts.
  Result<void> set_weight(int programs);
  // At most `millicores` in the long run; 0 lifts it.
  Result<void> set_quota(double millicores, Nanos period);
  // At most so much memory, and no swap. kUnavailable: there is no memory controller.
  Result<void> set_memory(Bytes most);
  // Whether the kernel has killed a process of the group at that limit.
  bool killed_by_memory_limit() const;
  std::vector<pid_t> processes() const;
  // Whether the process is in the group, or in one below it, in every hierarchy.
  bool holds(pid_t process) const;
  // Signals the processes in it, and no other that has one's number by then.
  void signal(int number) const;
  // The file of the kernel's counter, for CgroupCounter.
  const std::string& usage_file() const { return usage_file_; }
  Result<void> remove();  // REQUIRES: nothing runs in it

 private:
  friend class Cgroups;
  std::string name_;
  std::vector<std::string> folders_;  // one per hierarchy
  // Empty: that controller is not there.
  std::string cpu_folder_, cpuset_folder_, memory_folder_;
  std::string usage_file_;
  bool v2_ = false;
};

class Cgroups {
 public:
  // Finds out what can be written, below this process's own groups. `root` is the name of the group
  // that holds all of ours; it is there, and marked as in use, for as long as this lives. `proc` is
  // for tests.
  static Cgroups detect(const std::string& root, const std::string& proc = "/proc/self");

  bool writable() const { return writable_; }
  // Cgroup::set_memory() works.
  bool limits_memory() const { return limits_memory_; }
  // "cgroup v1: CPU quota as backstop, cores by cpuset, use as the kernel counts it", or why not
  // and what is left.
  const std::string& describe() const { return description_; }

  // Makes (or finds) ROOT/path, e.g. "cpu0", "cpu0/INSTANCE", or "" for ROOT itself. kUnavailable:
  // not writable.
  Result<Cgroup> open(const std::string& path) const;

  // The groups below ROOT in which processes run, by their path, e.g. "cpu0/INSTANCE".
  std::map<std::string, std::vector<pid_t>> populated() const;

  // Removes what platforms that were killed whole have left: groups beside ROOT whose names begin
  // so and that nobody has marked as in use. The kernel keeps those with processes in them.
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
  std::array<std::string, kControllers> base_;  // v1: each controller's folder; empty: not there
  std::string base_v2_;
  bool v2_ = false;
  bool writable_ = false, limits_memory_ = false;
  std::string description_;
  Fd in_use_;  // ROOT's folder below marked_base(), under flock()
};

// The quota of the backstop for a slice on a device of so many millicores.
double backstop_millicores(const Slice& slice, int device_millicores, const Backstop& backstop);

}  // namespace sluice::node
