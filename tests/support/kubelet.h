// A stand-in for a kubelet and its container runtime: it makes the cgroups of Pods, runs their
// programs there, and says of them what an API server would (tests/programs/pod_node_main.cc). A
// Pod has a container that pauses, and one named by its instance. Tests alone; not thread-safe.
#pragma once

#include "tests/support/node.h"

namespace sluice {

class Kubelet {
 public:
  explicit Kubelet(std::string data) : data_(std::move(data)) {
    for (const char* controller : {"cpu", "cpuacct", "cpuset"})
      bases_.push_back(kMount + (is_v2() ? "" : "/" + std::string(controller)));
    if (is_v2()) bases_.resize(1);
    say();
  }
  ~Kubelet() {
    while (!pods_.empty()) end(pods_.begin()->first);
    for (const std::string& base : bases_)
      for (const char* below : {"/kubepods/burstable", "/kubepods", ""})
        rmdir((base + "/" + top_ + below).c_str());
  }
  Kubelet(const Kubelet&) = delete;

  // Returns whether groups can be made here; else why not.
  std::string cannot() const {
    const bool made = make_group(top_ + "/kubepods/burstable");
    return made ? "" : kMount + " cannot be written";
  }

  // Changes what is said of a Pod.
  void say(const std::string& id, const json& changes) {
    said_["pods"][id].update(changes);
    say();
  }
  void say_current(bool current) {
    said_["current"] = current;
    say();
  }
  static std::string uid_of(const std::string& id) {
    char tail[13];
    std::snprintf(tail, sizeof tail, "%012zx", std::hash<std::string>()(id) & 0xffffffffffff);
    return "0a1b2c3d-1111-2222-3333-" + std::string(tail);
  }
  // The Pod is scheduled here, and not started yet.
  void schedule(const std::string& id) {
    say(id, {{"uid", uid_of(id)}, {"name", "default/" + id}, {"phase", "Pending"}});
  }
  // Makes its groups, with the limit that the kubelet gives (0: none), and runs the program there.
  void run(const std::string& id, std::vector<std::string> words, int millicores = 0) {
    Pod& pod = pods_[id];
    const std::string group = group_of(id);
    ASSERT_TRUE(make_group(group) && make_group(group + "/pause") && make_group(group + "/" + id));
    if (millicores > 0) {
      set_limit(group, millicores);
      set_limit(group + "/" + id, millicores);
    }
    pod.pause = start_in(group + "/pause", {"/bin/sleep", "1000"});
    pod.pid = start_in(group + "/" + id, std::move(words));
  }
  // The status that follows.
  void say_runs(const std::string& id, const std::string& ip) {
    say(id, {{"phase", "Running"}, {"ip", ip}, {"containers", {id}}});
  }
  // SIGTERM, as when its Pod is deleted; SIGKILL.
  void ask_to_end(const std::string& id) {
    say(id, {{"leaves", true}});
    kill(pods_.at(id).pid, SIGTERM);
  }
  // Ends its processes, and removes its groups; says nothing of it.
  void end(const std::string& id) {
    const Pod pod = pods_.at(id);
    for (const pid_t pid : {pod.pause, pod.pid}) {
      kill(pid, SIGKILL);
      waitpid(pid, nullptr, 0);
    }
    for (const std::string& base : bases_)
      for (const std::string& below : {std::string("/pause"), "/" + id, std::string()})
        EXPECT_TRUE(rmdir_soon(base + "/" + group_of(id) + below)) << id;
    pods_.erase(id);
  }
  pid_t pid(const std::string& id) const { return pods_.at(id).pid; }
  // Waits for its program's end, and returns whether there was one; its groups stay.
  bool wait_for(const std::string& id, int& status) {
    return waitpid(pods_.at(id).pid, &status, 0) == pods_.at(id).pid;
  }

  // The group that the daemon holds: the Pod's own in version 2, else its container's.
  static std::string held(const std::string& id) { return is_v2() ? "" : "/" + id; }
  // And the other one of these two.
  static std::string other(const std::string& id) { return is_v2() ? "/" + id : ""; }
  // Returns the quota that bounds the container: the lower one of these two.
  double bound(const std::string& id) const {
    const double a = quota(id, ""), b = quota(id, "/" + id);
    return a > 0 && b > 0 ? std::min(a, b) : std::max(a, b);
  }
  // Returns the quota of a group of the Pod, in millicores; 0: none. `below`: "" for its own.
  double quota(const std::string& id, const std::string& below) const {
    const std::string folder = bases_[0] + "/" + group_of(id) + below;
    double quota = 0, period = 0;
    if (is_v2()) {
      std::ifstream(folder + "/cpu.max") >> quota >> period;
    } else {
      std::ifstream(folder + "/cpu.cfs_quota_us") >> quota;
      std::ifstream(folder + "/cpu.cfs_period_us") >> period;
    }
    return quota > 0 ? quota * 1000 / period : 0;
  }

 private:
  struct Pod {
    pid_t pause = 0, pid = 0;
  };
  inline static const std::string kMount = "/sys/fs/cgroup";

  static bool is_v2() { return access((kMount + "/cgroup.controllers").c_str(), F_OK) == 0; }
  std::string group_of(const std::string& id) const {
    return top_ + "/kubepods/burstable/pod" + uid_of(id);
  }
  static bool write(const std::string& file, const std::string& text) {
    std::ofstream out(file);
    out << text << std::flush;
    return out.good();
  }
  static std::string read(const std::string& file) {
    std::string text;
    std::getline(std::ifstream(file), text);
    return text;
  }
  // A new group of version 1's cpusets has its parent's, and children of version 2's have the
  // controllers that they are given.
  bool make_group(const std::string& group) const {
    for (const std::string& base : bases_) {
      std::string folder = base;
      std::istringstream names(group);
      for (std::string name; std::getline(names, name, '/');) {
        if (is_v2() && !write(folder + "/cgroup.subtree_control", "+cpu +cpuset")) return false;
        const std::string above = folder;
        folder += "/" + name;
        if (mkdir(folder.c_str(), 0755) != 0 && errno != EEXIST) return false;
        if (is_v2() || !base.ends_with("/cpuset")) continue;
        for (const char* file : {"/cpuset.cpus", "/cpuset.mems"})
          if (read(folder + file).empty() && !write(folder + file, read(above + file)))
            return false;
      }
    }
    return true;
  }
  void set_limit(const std::string& group, int millicores) const {
    const std::string quota = std::to_string(millicores * 100);
    const std::string folder = bases_[0] + "/" + group;
    EXPECT_TRUE(is_v2() ? write(folder + "/cpu.max", quota + " 100000")
                        : write(folder + "/cpu.cfs_quota_us", quota));
  }
  pid_t start_in(const std::string& group, std::vector<std::string> words) const {
    std::vector<char*> argv;
    for (std::string& w : words) argv.push_back(w.data());
    argv.push_back(nullptr);
    const std::string socket = data_ + "/permits/permit.sock";
    const pid_t pid = fork();
    if (pid != 0) return pid;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    for (const std::string& base : bases_)
      if (!write(base + "/" + group + "/cgroup.procs", std::to_string(getpid()))) _exit(125);
    setenv("SLUICE_PERMIT_SOCKET", socket.c_str(), 1);
    execv(argv[0], argv.data());
    _exit(127);
  }
  // A group stays until the kernel has let go of its last process.
  static bool rmdir_soon(const std::string& folder) {
    for (int look = 0; look < 10'000; ++look) {
      if (rmdir(folder.c_str()) == 0 || errno == ENOENT) return true;
      usleep(1000);
    }
    return false;
  }
  void say() const {
    const std::string file = data_ + "/pods.json";
    std::ofstream(file + ".new") << said_;
    std::filesystem::rename(file + ".new", file);
  }

  const std::string data_;
  const std::string top_ = "sluice-test-kubelet-" + std::to_string(getpid());
  std::vector<std::string> bases_;
  std::map<std::string, Pod> pods_;
  json said_ = {{"current", true}, {"pods", json::object()}};
};

}  // namespace sluice
