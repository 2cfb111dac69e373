#include "enforce/pod_group.h"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <sstream>
#include <system_error>

namespace sluice::node {
namespace {

namespace fs = std::filesystem;

std::vector<std::string> groups_in(const std::string& folder) {
  std::vector<std::string> found;
  std::error_code fault;
  for (fs::directory_iterator at(folder, fault), end; !fault && at != end; at.increment(fault))
    if (std::error_code gone; at->is_directory(gone)) found.push_back(at->path().filename());
  return found;
}

// "kubepods" of the kubelet's driver cgroupfs; "kubepods.slice", perhaps with the names of slices
// above it before it, of systemd's.
bool is_kubepods(const std::string& name) {
  return name == "kubepods" || name == "kubepods.slice" || name.ends_with("-kubepods.slice");
}

bool is_of_pod(const std::string& name, const std::string& uid) {
  if (name == "pod" + uid) return true;
  std::string escaped = uid;
  std::ranges::replace(escaped, '-', '_');
  return name.ends_with("-pod" + escaped + ".slice");
}

std::string folder_if_there(const std::string& mount, const std::string& controller) {
  const std::string folder = mount + "/" + controller;
  return access(folder.c_str(), F_OK) == 0 ? folder : "";
}

}  // namespace

PodCgroups PodCgroups::detect(const std::string& mount) {
  PodCgroups found;
  CgroupBases& b = found.bases_;
  b.v2 = access((mount + "/cgroup.controllers").c_str(), F_OK) == 0;
  if (b.v2)
    b.cpu = b.cpuacct = b.cpuset = b.memory = mount;
  else
    b = {.cpu = folder_if_there(mount, "cpu"),
         .cpuacct = folder_if_there(mount, "cpuacct"),
         .cpuset = folder_if_there(mount, "cpuset"),
         .memory = folder_if_there(mount, "memory")};
  const std::string lacks = "; permits alone enforce the slices of Pods";
  if (!found.readable()) {
    found.description_ = mount + " has no cgroups with a cpu controller" + lacks;
    return found;
  }
  found.writable_ = access((b.cpu + "/cgroup.procs").c_str(), W_OK) == 0;
  found.description_ =
      found.writable_
          ? std::string("cgroup ") + (b.v2 ? "v2" : "v1") + " of Pods: CPU quota as backstop"
          : mount + " cannot be written (" + std::system_category().message(errno) + ")" + lacks;
  return found;
}

std::vector<std::string> PodCgroups::kubepods() const {
  constexpr int kDeepest = 4;  // below the node's own group, where kubelets are in containers
  std::vector<std::string> found, level{""};
  for (int depth = 0; depth < kDeepest && !bases_.cpu.empty(); ++depth) {
    std::vector<std::string> next;
    for (const std::string& group : level)
      for (const std::string& name : groups_in(bases_.cpu + "/" + group))
        (is_kubepods(name) ? found : next).push_back(group.empty() ? name : group + "/" + name);
    level = std::move(next);
  }
  return found;
}

std::optional<std::string> PodCgroups::find(const std::vector<std::string>& kubepods,
                                            const std::string& uid) const {
  for (const std::string& top : kubepods)
    for (const std::string& name : groups_in(bases_.cpu + "/" + top)) {
      std::string group = top;
      group += "/" + name;
      if (is_of_pod(name, uid)) return group;
      for (const std::string& below : groups_in(bases_.cpu + "/" + group))  // of a QoS class
        if (is_of_pod(below, uid)) return group + "/" + below;
    }
  return std::nullopt;
}

std::optional<std::string> container_of(pid_t pid, const std::string& uid) {
  std::ifstream file("/proc/" + std::to_string(pid) + "/cgroup");
  for (std::string line; std::getline(file, line);) {
    std::istringstream path(line.substr(line.rfind(':') + 1));
    for (std::string name; std::getline(path, name, '/');) {
      if (!is_of_pod(name, uid)) continue;
      std::string container;
      std::getline(path, container, '/');
      return container;
    }
  }
  return std::nullopt;
}

void PodGroup::begin(const std::string& uid) {
  if (uid_ == uid) return;
  uid_ = uid;
  misses_ = 0;
  own_ = {};
  containers_.clear();
  hold();
}

void PodGroup::find_groups() {
  const CgroupBases& bases = cgroups_.bases();
  // A scan of a whole machine's groups takes milliseconds, and a Pod that starts is polled often.
  constexpr int kMissesPerScan = 50;
  if (misses_ % kMissesPerScan == 0) kubepods_ = cgroups_.kubepods();
  const std::optional<std::string> pod = cgroups_.find(kubepods_, uid_);
  misses_ = pod ? 1 : misses_ + 1;
  if (!pod) {
    containers_.clear();
    return;
  }
  // The hierarchies of version 1 get the group one after the other.
  own_.group = Cgroup::of_another(bases, *pod);
  const std::vector<std::string> names = groups_in(bases.cpu + "/" + *pod);
  std::erase_if(containers_, [&](const auto& known) {
    return std::ranges::find(names, known.first) == names.end();
  });
  for (const std::string& name : names)
    containers_[name].group = Cgroup::of_another(bases, *pod + "/" + name);
}

void PodGroup::hold() {
  if (uid_.empty()) return;
  find_groups();
  fault_.clear();
  if (!cgroups_.writable()) return;
  const bool is_v2 = cgroups_.bases().v2;
  if (is_v2) note(own_, hold_quota(own_, 0));
  for (auto& [name, container] : containers_) {
    note(container, hold_cores(container));
    if (!is_v2) note(container, hold_quota(container, own_.group.quota().millicores));
  }
}

// A container that has ended meanwhile, as an init container does, refuses nothing.
void PodGroup::note(const Held& held, const Result<void>& done) {
  if (!done.ok() && held.group.exists()) fault_ = done.error().message;
}

Result<void> PodGroup::hold_cores(Held& container) const {
  if (container.cores == cores_) return {};
  SLUICE_TRY(container.group.set_cores(cores_));
  container.cores = cores_;
  return {};
}

// A quota of another period than ours is the kubelet's.
Result<void> PodGroup::hold_quota(Held& held, double above) const {
  if (millicores_ <= 0) return {};
  if (const CpuQuota now = held.group.quota(); now.period != period_) held.given = now.millicores;
  double most = millicores_;
  for (const double bound : {held.given, above})
    if (bound > 0) most = std::min(most, bound);
  return held.group.set_quota(most, period_);
}

// The quota of a container whose own limit is not known is the Pod's. A Pod whose limit is not
// known needs none: a kubelet gives one only where all containers have theirs, and it is their sum.
void PodGroup::give_back() {
  constexpr Nanos kKubeletsPeriod = Millis(100);
  find_groups();
  const bool is_v2 = cgroups_.bases().v2;
  if (is_v2 && millicores_ > 0) (void)own_.group.set_quota(own_.given, kKubeletsPeriod);
  for (auto& [name, container] : containers_) {
    if (!is_v2 && millicores_ > 0)
      (void)container.group.set_quota(container.given, kKubeletsPeriod);
    if (!container.cores.empty()) (void)container.group.take_cores_of(own_.group);
  }
  uid_.clear();
}

Result<void> PodGroup::set_cores(const std::vector<int>& cores) {
  cores_ = cores;
  hold();
  return {};
}

Result<void> PodGroup::set_quota(double millicores, Nanos period) {
  millicores_ = millicores;
  period_ = period;
  hold();
  return {};
}

bool PodGroup::is_chosen(const std::string& container) const {
  return chosen_.empty() || container == chosen_;
}

bool PodGroup::killed_by_memory_limit() const {
  return std::ranges::any_of(containers_, [&](const auto& one) {
    return is_chosen(one.first) && one.second.group.killed_by_memory_limit();
  });
}

std::vector<pid_t> PodGroup::processes() const {
  std::vector<pid_t> all;
  for (const auto& [name, container] : containers_)
    if (is_chosen(name)) std::ranges::copy(container.group.processes(), std::back_inserter(all));
  return all;
}

void PodGroup::signal(int number) const {
  for (const auto& [name, container] : containers_)
    if (is_chosen(name)) container.group.signal(number);
}

// The name is the id itself, or as systemd's driver has it "cri-containerd-ID.scope".
std::vector<pid_t> PodGroup::processes_of(const std::string& id) const {
  for (const auto& [name, container] : containers_)
    if (!id.empty() && name.find(id) != name.npos) return container.group.processes();
  return {};
}

}  // namespace sluice::node
