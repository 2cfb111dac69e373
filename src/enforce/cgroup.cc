#include "enforce/cgroup.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <set>
#include <sstream>
#include <system_error>

#include "base/read_file.h"

namespace sluice::node {
namespace {

// Returns an empty text where there is none: groups and processes end at any time.
std::string text_in(const std::string& path) {
  Result<std::string> text = read_file(path);
  return text.ok() ? std::move(*text) : "";
}

// Returns the number behind `word` at the beginning of a line; 0 without such a line.
int64_t number_after(const std::string& text, const std::string& word) {
  std::istringstream in(text);
  for (std::string line; std::getline(in, line);)
    if (line.starts_with(word)) return std::atoll(line.c_str() + word.size());
  return 0;
}

// Control files take one write of the whole value, and refuse by that write's result.
// O_TRUNC means nothing to the kernel's files; a recorded hierarchy has plain ones.
Result<void> write_file(const std::string& path, const std::string& value) {
  const Fd fd(open(path.c_str(), O_WRONLY | O_TRUNC | O_CLOEXEC));
  if (fd.valid() &&
      ::write(fd.get(), value.data(), value.size()) == static_cast<ssize_t>(value.size()))
    return {};
  return Error{ErrorKind::kUnavailable,
               path + ": cannot write \"" + value + "\": " + std::system_category().message(errno)};
}

// Writes it unless the file has that value.
Result<void> change_file(const std::string& path, const std::string& value) {
  std::string now = text_in(path);
  while (now.ends_with('\n')) now.pop_back();
  return now == value ? Result<void>() : write_file(path, value);
}

int64_t number_in(const std::string& path) {
  return std::atoll(text_in(path).c_str());
}

bool contains(const std::string& list, const std::string& item, char separator) {
  std::istringstream in(list);
  for (std::string word; std::getline(in, word, separator);)
    if (word == item) return true;
  return false;
}

// One line of /proc/PID/mountinfo: … ROOT MOUNTPOINT … - TYPE SOURCE OPTIONS
struct Mount {
  std::string root, point, type, options;
};
std::vector<Mount> cgroup_mounts(const std::string& mountinfo) {
  std::vector<Mount> mounts;
  std::istringstream in(mountinfo);
  for (std::string line; std::getline(in, line);) {
    std::istringstream words(line);
    Mount m;
    std::string skipped;
    words >> skipped >> skipped >> skipped >> m.root >> m.point;
    while (words >> skipped && skipped != "-") {
    }
    words >> m.type >> skipped >> m.options;
    if (m.type == "cgroup" || m.type == "cgroup2") mounts.push_back(m);
  }
  return mounts;
}

// Returns this process's group below a mount: a container may see only a part of the tree.
std::string own_folder(const Mount& mount, const std::string& own) {
  std::string below = own;
  if (mount.root != "/") {
    const bool inside = own.starts_with(mount.root);
    below = inside ? own.substr(mount.root.size()) : "";
  }
  if (below == "/") below.clear();
  return mount.point + below;
}

// Returns the group that /proc/PID/cgroup names for a controller; "" names v2's.
std::string group_of(const std::string& own, const std::string& controller) {
  std::istringstream in(own);
  for (std::string line; std::getline(in, line);) {
    const size_t first = line.find(':'), second = line.find(':', first + 1);
    if (second == std::string::npos) continue;
    const std::string names = line.substr(first + 1, second - first - 1);
    if (names == controller || contains(names, controller, ',')) return line.substr(second + 1);
  }
  return "/";
}

// Only its owner may open it: a process that can open it could hold its lock.
Result<void> make_folder(const std::string& path) {
  if (mkdir(path.c_str(), 0700) == 0 || errno == EEXIST) return {};
  return Error{ErrorKind::kUnavailable, path + ": " + std::system_category().message(errno)};
}

std::vector<std::string> folders_in(const std::string& folder) {
  std::vector<std::string> found;
  std::error_code fault;
  for (std::filesystem::directory_iterator at(folder, fault), end; !fault && at != end;
       at.increment(fault))
    if (std::error_code gone; at->is_directory(gone)) found.push_back(at->path());
  return found;
}

// Removes the leaves first.
void remove_tree(const std::string& folder) {
  for (const std::string& child : folders_in(folder)) remove_tree(child);
  rmdir(folder.c_str());
}

std::string parent_of(const std::string& path) {
  return path.substr(0, path.rfind('/'));
}

// A v1 cpuset takes no process before it has cores and memory nodes: it begins with its parent's.
Result<void> inherit_cpuset(const std::string& folder) {
  for (const char* file : {"/cpuset.cpus", "/cpuset.mems"}) {
    if (text_in(folder + file).find_first_not_of(" \n") != std::string::npos) continue;
    std::string value = text_in(parent_of(folder) + file);
    while (!value.empty() && value.back() == '\n') value.pop_back();
    SLUICE_TRY(write_file(folder + file, value));
  }
  return {};
}

// v2: the leaf that takes the processes of the group below which ours are made.
constexpr char kLeaf[] = "host";

std::vector<pid_t> processes_in(const std::string& folder) {
  std::vector<pid_t> found;
  std::istringstream in(text_in(folder + "/cgroup.procs"));
  for (pid_t pid; in >> pid;) found.push_back(pid);
  return found;
}

// v2: a group's children have the controllers that it passes on. If a group with processes (except
// the machine's root, which has no type) passes on a controller for threads, as these are, its
// children become unfit for processes. So its processes, this one among them, first move into a
// leaf. A process born meanwhile is found in the next round.
Result<void> pass_on(const std::string& folder, const std::string& controller) {
  constexpr int kMostRounds = 10;
  const bool root = access((folder + "/cgroup.type").c_str(), F_OK) != 0;
  for (int round = 0; round < kMostRounds && !root; ++round) {
    const std::vector<pid_t> here = processes_in(folder);
    if (here.empty()) break;
    SLUICE_TRY(make_folder(folder + "/" + kLeaf));
    for (const pid_t pid : here)
      (void)write_file(folder + "/" + kLeaf + "/cgroup.procs", std::to_string(pid));
  }
  return write_file(folder + "/cgroup.subtree_control", "+" + controller);
}

std::string micros(double value) {
  return std::to_string(static_cast<int64_t>(value));
}

}  // namespace

// --- what there is -------------------------------------------------------------------------------

bool Cgroups::detect_v1(const std::string& mountinfo, const std::string& own) {
  const std::array<std::string, kControllers> names{"cpu", "cpuacct", "cpuset", "memory"};
  for (const Mount& mount : cgroup_mounts(mountinfo)) {
    if (mount.type != "cgroup") continue;
    for (int c = 0; c < kControllers; ++c)
      if (contains(mount.options, names[c], ','))
        base_[c] = own_folder(mount, group_of(own, names[c]));
  }
  // Instances run without a memory limit rather than without a CPU quota.
  if (access(base_[kMemory].c_str(), W_OK) != 0) base_[kMemory].clear();
  return !base_[kCpu].empty() && !base_[kCpuacct].empty();
}

bool Cgroups::detect_v2(const std::string& mountinfo, const std::string& own) {
  for (const Mount& mount : cgroup_mounts(mountinfo)) {
    if (mount.type != "cgroup2") continue;
    std::string base = own_folder(mount, group_of(own, ""));
    const std::string leaf = std::string("/") + kLeaf;  // an earlier daemon may have made it
    if (base.ends_with(leaf)) base.resize(base.size() - leaf.size());
    std::string controllers = text_in(base + "/cgroup.controllers");
    while (!controllers.empty() && controllers.back() == '\n') controllers.pop_back();
    if (!contains(controllers, "cpu", ' ')) continue;
    base_v2_ = base;
    v2_ = true;
  }
  return v2_;
}

Cgroups Cgroups::detect(const std::string& root, const std::string& proc) {
  Cgroups found;
  found.root_ = root;
  const std::string mounts = text_in(proc + "/mountinfo"), own = text_in(proc + "/cgroup");
  const std::string left =
      "; permits alone enforce the slices: a program that passes no gate is not held";
  if (!found.detect_v1(mounts, own) && !found.detect_v2(mounts, own)) {
    found.description_ = "no cgroup with a cpu controller here" + left;
    return found;
  }
  const Result<void> can = found.probe();
  found.writable_ = can.ok();
  found.limits_memory_ = can.ok() && found.try_memory();
  found.description_ = can.ok() ? std::string("cgroup ") + (found.v2_ ? "v2" : "v1") +
                                      ": CPU quota as backstop, use as the kernel counts it"
                                : "cgroups cannot be written (" + can.error().message + ")" + left;
  return found;
}

Result<void> Cgroups::probe() {
  writable_ = true;
  Result<void> outcome = mark_in_use();
  if (outcome.ok()) outcome = try_quota();
  if (outcome.ok()) return outcome;
  if (Result<Cgroup> ours = open(""); ours.ok()) (void)ours->remove();
  in_use_.reset();
  writable_ = false;
  return outcome;
}

Result<void> Cgroups::try_quota() const {
  SLUICE_ASSIGN(group, open("probe-" + std::to_string(getpid())));
  Result<void> quota = group.set_quota(1000, Millis(100));
  SLUICE_TRY(group.remove());
  return quota;
}

bool Cgroups::try_memory() const {
  constexpr Bytes kAny = Bytes{1} << 30;
  Result<Cgroup> group = open("probe-" + std::to_string(getpid()));
  const bool works = group.ok() && group->set_memory(kAny).ok();
  if (group.ok()) (void)group->remove();
  return works;
}

// --- groups in use, and abandoned groups ---------------------------------------------------------

// The mark is a shared flock() on ROOT's folder; removing abandoned groups first takes the
// exclusive one. (A POSIX lock would need a folder that is open for writing. A child that was
// forked and not yet executed may keep the lock a little longer, without harm.)
Result<void> Cgroups::mark_in_use() {
  for (;;) {
    SLUICE_ASSIGN(ours, open(""));
    Fd fd(::open(ours.cpu_folder_.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    if (!fd.valid() && errno == ENOENT) continue;  // just removed as abandoned
    if (!fd.valid() || ::flock(fd.get(), LOCK_SH) != 0)
      return Error{ErrorKind::kUnavailable,
                   ours.cpu_folder_ + ": " + std::system_category().message(errno)};
    struct stat marked {
    }, there{};
    const bool still_there = ::fstat(fd.get(), &marked) == 0 &&
                             ::stat(ours.cpu_folder_.c_str(), &there) == 0 &&
                             marked.st_ino == there.st_ino;
    if (!still_there) continue;
    in_use_ = std::move(fd);
    return {};
  }
}

std::map<std::string, std::vector<pid_t>> Cgroups::populated() const {
  std::map<std::string, std::vector<pid_t>> found;
  if (!writable_) return found;
  const std::string top = marked_base() + "/" + root_;
  std::vector<std::string> folders = folders_in(top);
  for (size_t i = 0; i < folders.size(); ++i) {
    const std::string folder = folders[i];
    std::ranges::copy(folders_in(folder), std::back_inserter(folders));
    std::vector<pid_t> processes = processes_in(folder);
    if (!processes.empty()) found[folder.substr(top.size() + 1)] = std::move(processes);
  }
  return found;
}

void Cgroups::remove_abandoned(const std::string& prefix) const {
  if (!writable_) return;
  for (const std::string& folder : folders_in(marked_base())) {
    const std::string name = folder.substr(folder.rfind('/') + 1);
    if (!name.starts_with(prefix)) continue;
    const Fd fd(::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    if (!fd.valid() || ::flock(fd.get(), LOCK_EX | LOCK_NB) != 0) continue;
    for (const std::string& base : bases())
      if (base != marked_base()) remove_tree(base + "/" + name);
    remove_tree(folder);
  }
}

// --- groups --------------------------------------------------------------------------------------

std::vector<std::string> Cgroups::bases() const {
  std::set<std::string> distinct(base_.begin(), base_.end());
  if (v2_) distinct = {base_v2_};
  distinct.erase("");
  return {distinct.begin(), distinct.end()};
}

Result<Cgroup> Cgroups::open(const std::string& path) const {
  if (!writable_) return Error{ErrorKind::kUnavailable, description_};
  Cgroup group;
  group.name_ = root_ + "/" + path;
  group.v2_ = v2_;
  for (const std::string& base : bases()) {
    std::string folder = base;
    std::istringstream parts(group.name_);
    for (std::string part; std::getline(parts, part, '/');) {
      if (v2_) SLUICE_TRY(pass_on(folder, "cpu"));
      if (v2_) (void)pass_on(folder, "cpuset");  // where there is one
      if (v2_) (void)pass_on(folder, "memory");
      folder += "/" + part;
      SLUICE_TRY(make_folder(folder));
      if (!v2_ && base == base_[kCpuset]) SLUICE_TRY(inherit_cpuset(folder));
    }
    group.folders_.push_back(folder);
    if (v2_ || base == base_[kCpu]) group.cpu_folder_ = folder;
    if (v2_ || base == base_[kCpuset]) group.cpuset_folder_ = folder;
    if (v2_ || base == base_[kMemory]) group.memory_folder_ = folder;
    if (v2_ || base == base_[kCpuacct])
      group.usage_file_ = folder + (v2_ ? "/cpu.stat" : "/cpuacct.usage");
  }
  return group;
}

Cgroup Cgroup::of_another(const CgroupBases& bases, const std::string& path) {
  Cgroup group;
  group.name_ = path;
  group.v2_ = bases.v2;
  const auto in = [&](const std::string& base) {
    std::string folder = base + "/" + path;
    if (base.empty()) return std::string();
    if (access(folder.c_str(), F_OK) != 0) {
      group.whole_ = false;
      return std::string();
    }
    if (std::ranges::find(group.folders_, folder) == group.folders_.end())
      group.folders_.push_back(folder);
    return folder;
  };
  group.cpu_folder_ = in(bases.cpu);
  group.cpuset_folder_ = in(bases.cpuset);
  group.memory_folder_ = in(bases.memory);
  if (const std::string counted = in(bases.cpuacct); !counted.empty())
    group.usage_file_ = counted + (bases.v2 ? "/cpu.stat" : "/cpuacct.usage");
  return group;
}

bool Cgroup::exists() const {
  return whole_ && std::ranges::all_of(folders_, [](const std::string& folder) {
           return access(folder.c_str(), F_OK) == 0;
         });
}

Result<void> Cgroup::add(pid_t process) {
  for (const std::string& folder : folders_)
    SLUICE_TRY(write_file(folder + "/cgroup.procs", std::to_string(process)));
  return {};
}

Result<void> Cgroup::set_cores(const std::vector<int>& cores) {
  if (cpuset_folder_.empty())
    return Error{ErrorKind::kUnavailable, name_ + ": there is no cpuset controller"};
  std::string list;
  for (const int core : cores) list += (list.empty() ? "" : ",") + std::to_string(core);
  return write_file(cpuset_folder_ + "/cpuset.cpus", list);
}

// Version 2 takes an empty line for "the parent's".
Result<void> Cgroup::take_cores_of(const Cgroup& parent) {
  if (cpuset_folder_.empty()) return {};
  return write_file(cpuset_folder_ + "/cpuset.cpus",
                    text_in(parent.cpuset_folder_ + "/cpuset.cpus"));
}

Result<void> Cgroup::set_weight(int programs) {
  if (v2_) return write_file(cpu_folder_ + "/cpu.weight", std::to_string(100 * programs));
  return write_file(cpu_folder_ + "/cpu.shares", std::to_string(1024 * programs));
}

Result<void> Cgroup::set_quota(double millicores, Nanos period) {
  const double period_us = static_cast<double>(period / Micros(1));
  const double quota_us = std::max(period_us * millicores / 1000, 1000.0);  // the kernel's minimum
  const bool none = millicores <= 0;
  const std::string quota = micros(quota_us), every = micros(period_us);
  // Quota left in one period may be used in the next: a burst as large as the quota, and never
  // larger (Linux 5.14).
  const std::string burst_file = cpu_folder_ + (v2_ ? "/cpu.max.burst" : "/cpu.cfs_burst_us");
  const std::string burst = none ? "0" : quota;
  if (number_in(burst_file) > std::stoll(burst)) (void)write_file(burst_file, burst);
  if (v2_) {
    SLUICE_TRY(change_file(cpu_folder_ + "/cpu.max", (none ? "max" : quota) + " " + every));
  } else {
    if (number_in(cpu_folder_ + "/cpu.cfs_period_us") != std::stoll(every)) {
      SLUICE_TRY(change_file(cpu_folder_ + "/cpu.cfs_quota_us", "-1"));
      SLUICE_TRY(write_file(cpu_folder_ + "/cpu.cfs_period_us", every));
    }
    SLUICE_TRY(change_file(cpu_folder_ + "/cpu.cfs_quota_us", none ? "-1" : quota));
  }
  if (number_in(burst_file) != std::stoll(burst)) (void)write_file(burst_file, burst);
  return {};
}

CpuQuota Cgroup::quota() const {
  if (cpu_folder_.empty()) return {};
  std::istringstream v2(text_in(cpu_folder_ + "/cpu.max"));
  std::string most;
  int64_t period = 0;
  if (v2_) v2 >> most >> period;
  const int64_t quota =
      v2_ ? std::atoll(most.c_str()) : number_in(cpu_folder_ + "/cpu.cfs_quota_us");
  if (!v2_) period = number_in(cpu_folder_ + "/cpu.cfs_period_us");
  if (quota <= 0 || period <= 0) return {0, Micros(std::max<int64_t>(period, 0))};
  return {static_cast<double>(quota) * 1000 / static_cast<double>(period), Micros(period)};
}

// v1 also counts memory and swap together, and takes no limit of memory above that of both. The
// limit of both leaves a margin for the largest charge (a huge page, twice over). Thus each charge
// meets the limit of memory first, and the kernel counts failures of that one alone.
Result<void> Cgroup::set_memory(Bytes most) {
  constexpr Bytes kLargestCharge = Bytes{4} << 20;
  if (memory_folder_.empty())
    return Error{ErrorKind::kUnavailable, name_ + ": there is no memory controller"};
  const std::string value = std::to_string(most), both = "/memory.memsw.limit_in_bytes";
  if (v2_) {
    SLUICE_TRY(write_file(memory_folder_ + "/memory.max", value));
    (void)write_file(memory_folder_ + "/memory.swap.max", "0");   // where there is swap
    (void)write_file(memory_folder_ + "/memory.oom.group", "1");  // all of it or nothing
    return {};
  }
  (void)write_file(memory_folder_ + both, "-1");
  SLUICE_TRY(write_file(memory_folder_ + "/memory.limit_in_bytes", value));
  (void)write_file(memory_folder_ + both, std::to_string(most + kLargestCharge));
  return {};
}

// A kill for a lack of memory outside the group also counts in it; only its own limit counts `oom`
// (v2) and failures (v1).
bool Cgroup::killed_by_memory_limit() const {
  if (memory_folder_.empty()) return false;
  if (v2_) {
    const std::string events = text_in(memory_folder_ + "/memory.events");
    return number_after(events, "oom_kill ") > 0 && number_after(events, "oom ") > 0;
  }
  return number_after(text_in(memory_folder_ + "/memory.oom_control"), "oom_kill ") > 0 &&
         number_after(text_in(memory_folder_ + "/memory.failcnt"), "") > 0;
}

std::vector<pid_t> Cgroup::processes() const {
  return folders_.empty() ? std::vector<pid_t>{} : processes_in(folders_.front());
}

bool Cgroup::holds(pid_t process) const {
  const std::string place = "/" + name_;
  std::istringstream groups(text_in("/proc/" + std::to_string(process) + "/cgroup"));
  size_t hierarchies = 0;
  for (std::string line; std::getline(groups, line);)
    hierarchies += line.ends_with(place) || line.find(place + "/") != line.npos;
  return hierarchies >= folders_.size();
}

// A pid that is still in the group after its pidfd was opened is the pidfd's.
void Cgroup::signal(int number) const {
  std::vector<std::pair<pid_t, Fd>> opened;
  for (const pid_t pid : processes())
    opened.emplace_back(pid, static_cast<int>(syscall(SYS_pidfd_open, pid, 0)));
  const std::vector<pid_t> still_there = processes();
  for (const auto& [pid, pidfd] : opened)
    if (std::ranges::find(still_there, pid) != still_there.end())
      syscall(SYS_pidfd_send_signal, pidfd.get(), number, nullptr, 0);
}

Result<void> Cgroup::remove() {
  for (const std::string& folder : folders_) {
    if (rmdir(folder.c_str()) != 0 && errno != ENOENT)
      return Error{ErrorKind::kConflict, folder + ": " + std::system_category().message(errno)};
  }
  return {};
}

double backstop_millicores(const Slice& slice, int device_millicores, const Backstop& backstop) {
  return device_millicores * slice.sm.fraction() * slice.quota.limit.fraction() * backstop.margin;
}

}  // namespace sluice::node
