#include "process/process_identity.h"

#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <map>
#include <sstream>

namespace sluice::node {
namespace {

constexpr unsigned kExiting = 4;  // PF_EXITING of the kernel's sched.h

struct Stat {
  char state = '?';
  pid_t parent = 0;
  unsigned flags = 0;
  uint64_t start_time = 0;
  int exit_status = 0;
};

// /proc/PID/stat: the name in parentheses may hold anything, so fields are counted from the last
// ')': 3 is the state, 4 the parent, 9 the flags, 22 the start time, 52 a zombie's exit status.
std::optional<Stat> read_stat(pid_t pid) {
  std::ifstream file("/proc/" + std::to_string(pid) + "/stat");
  std::string line;
  if (!std::getline(file, line)) return std::nullopt;
  const size_t name_end = line.rfind(')');
  if (name_end == std::string::npos) return std::nullopt;
  std::istringstream rest(line.substr(name_end + 1));
  Stat s;
  std::string skipped;
  rest >> s.state >> s.parent;
  for (int field = 5; field < 9; ++field) rest >> skipped;
  rest >> s.flags;
  for (int field = 10; field < 22; ++field) rest >> skipped;
  rest >> s.start_time;
  for (int field = 23; field < 52; ++field) rest >> skipped;
  rest >> s.exit_status;
  if (!rest) return std::nullopt;
  return s;
}

// PIDFD_GET_INFO (Linux 6.13; with the exit status of a reaped process since 6.15), not in Debian
// 12's headers.
struct PidfdInfo {
  uint64_t mask = 0;
  uint64_t cgroup = 0;
  uint32_t pid = 0;
  uint32_t other_ids[10] = {};
  int32_t exit_status = 0;
};
constexpr uint64_t kInfoExit = 1 << 3;
constexpr unsigned long kGetInfo = _IOWR(0xFF, 11, PidfdInfo);
static_assert(sizeof(PidfdInfo) == 64);

// Returns -1 once it is reaped.
pid_t pid_behind(int pidfd) {
  std::ifstream info("/proc/self/fdinfo/" + std::to_string(pidfd));
  for (std::string line; std::getline(info, line);)
    if (line.starts_with("Pid:")) return std::atoi(line.c_str() + 4);
  return -1;
}

std::string in_words(int status) {
  if (WIFSIGNALED(status))
    return "signal " + std::to_string(WTERMSIG(status)) + " (" + strsignal(WTERMSIG(status)) + ")";
  return "exit code " + std::to_string(WEXITSTATUS(status));
}

}  // namespace

Result<std::string> boot_id() {
  std::ifstream file("/proc/sys/kernel/random/boot_id");
  std::string id;
  if (!std::getline(file, id) || id.empty())
    return Error{ErrorKind::kInternal, "/proc/sys/kernel/random/boot_id: cannot be read"};
  return id;
}

std::optional<ProcessIdentity> identity_of(pid_t pid) {
  if (pid <= 0) return std::nullopt;
  const std::optional<Stat> s = read_stat(pid);
  if (!s || s->state == 'Z' || s->state == 'X') return std::nullopt;
  return ProcessIdentity{pid, s->start_time};
}

bool is_exiting(pid_t pid) {
  const std::optional<Stat> s = read_stat(pid);
  return !s || (s->flags & kExiting) != 0;
}

Result<Fd> open_process(const ProcessIdentity& process) {
  Fd fd(static_cast<int>(syscall(SYS_pidfd_open, process.pid, 0)));
  if (!fd.valid() && errno != ESRCH)
    return Error{ErrorKind::kInternal,
                 "pidfd_open " + std::to_string(process.pid) + ": " + std::strerror(errno)};
  if (!fd.valid() || identity_of(process.pid) != process)
    return Error{ErrorKind::kNotFound, "process " + std::to_string(process.pid) + " is gone"};
  return fd;
}

bool signal_process(const ProcessIdentity& process, int signal) {
  const Result<Fd> pidfd = open_process(process);
  return pidfd.ok() && syscall(SYS_pidfd_send_signal, pidfd->get(), signal, nullptr, 0) == 0;
}

std::string program_of(pid_t pid) {
  constexpr std::string_view kReplaced = " (deleted)";
  std::error_code fault;
  std::string path =
      std::filesystem::read_symlink("/proc/" + std::to_string(pid) + "/exe", fault).string();
  if (path.ends_with(kReplaced)) path.resize(path.size() - kReplaced.size());
  return path;
}

std::vector<pid_t> family_of(pid_t pid) {
  std::multimap<pid_t, pid_t> children;
  std::error_code ignored;
  for (const auto& entry : std::filesystem::directory_iterator("/proc", ignored)) {
    const pid_t found = std::atoi(entry.path().filename().c_str());
    if (found <= 0) continue;
    if (const std::optional<Stat> s = read_stat(found)) children.emplace(s->parent, found);
  }
  std::vector<pid_t> family{pid};
  for (size_t i = 0; i < family.size(); ++i) {
    const auto [first, last] = children.equal_range(family[i]);
    for (auto child = first; child != last; ++child) family.push_back(child->second);
  }
  return family;
}

std::optional<uid_t> uid_of(pid_t pid) {
  struct stat s {};
  if (pid <= 0 || stat(("/proc/" + std::to_string(pid)).c_str(), &s) != 0) return std::nullopt;
  return s.st_uid;
}

std::vector<ProcessIdentity> ancestors_of(pid_t pid) {
  std::vector<ProcessIdentity> ancestors;
  for (std::optional<Stat> s = read_stat(pid); s && s->parent > 0;) {
    pid = s->parent;
    s = read_stat(pid);
    if (s) ancestors.push_back({pid, s->start_time});
  }
  return ancestors;
}

bool is_child(int pidfd, pid_t pid, pid_t parent, uid_t uid) {
  const std::optional<Stat> s = read_stat(pid);
  // Last, as only an unreaped process keeps its pid from another.
  return s && s->parent == parent && uid_of(pid) == uid && pid_behind(pidfd) == pid;
}

std::string how_it_ended(int pidfd) {
  siginfo_t info{};
  if (waitid(P_PIDFD, static_cast<id_t>(pidfd), &info, WEXITED | WNOHANG) == 0 && info.si_pid != 0)
    return info.si_code == CLD_EXITED ? in_words(info.si_status << 8) : in_words(info.si_status);
  // Another process's child: still a zombie, which /proc shows, or reaped, which the pidfd
  // remembers.
  for (int look = 0; look < 2; ++look) {
    PidfdInfo known{.mask = kInfoExit};
    if (ioctl(pidfd, kGetInfo, &known) == 0 && (known.mask & kInfoExit) != 0)
      return in_words(known.exit_status);
    const std::optional<Stat> corpse = read_stat(pid_behind(pidfd));
    if (corpse && corpse->state == 'Z') return in_words(corpse->exit_status);
  }
  return "ended; its parent alone knows how";
}

}  // namespace sluice::node
