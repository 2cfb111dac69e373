#include "cli/platform_processes.h"

#include <poll.h>
#include <signal.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "base/log.h"

namespace sluice::cli {
namespace {

constexpr Nanos kKilledWithin = Seconds(5);

bool carries(pid_t pid, const std::string& variable) {
  std::ifstream environment("/proc/" + std::to_string(pid) + "/environ");
  for (std::string one; std::getline(environment, one, '\0');)
    if (one == variable) return true;
  return false;
}

std::string name_of(pid_t pid) {
  std::ifstream file("/proc/" + std::to_string(pid) + "/comm");
  std::string name;
  std::getline(file, name);
  return name;
}

void signal_all(const std::vector<PlatformProcess>& processes, int signal) {
  for (const PlatformProcess& p : processes)
    ::syscall(SYS_pidfd_send_signal, p.pidfd.get(), signal, nullptr, 0);
}

void wait_for_all(const std::vector<PlatformProcess>& processes, Nanos patience) {
  const SteadyClock clock;
  const Time give_up = clock.now() + patience;
  for (const PlatformProcess& p : processes) {
    pollfd ended{p.pidfd.get(), POLLIN, 0};
    ::poll(&ended, 1, static_cast<int>(std::max<int64_t>(0, (give_up - clock.now()) / Millis(1))));
  }
}

}  // namespace

std::string platform_variable(const std::string& data) {
  std::error_code fault;
  const std::filesystem::path whole = std::filesystem::weakly_canonical(data, fault);
  return "SLUICE_PLATFORM=" + (fault ? data : whole.string());
}

// The environment is read after the pidfd was opened, so that both belong to one process.
std::vector<PlatformProcess> platform_processes(const std::string& data) {
  const std::string variable = platform_variable(data);
  std::vector<PlatformProcess> found;
  std::error_code fault;
  std::filesystem::directory_iterator at("/proc", fault), end;
  for (; !fault && at != end; at.increment(fault)) {
    const pid_t pid = std::atoi(at->path().filename().c_str());
    if (pid <= 0 || pid == ::getpid()) continue;
    Fd pidfd(static_cast<int>(::syscall(SYS_pidfd_open, pid, 0)));
    if (pidfd.valid() && carries(pid, variable))
      found.push_back({pid, name_of(pid), std::move(pidfd)});
  }
  return found;
}

// In rounds: a process may have started another meanwhile.
Result<void> end_platform_processes(const std::string& data, Nanos patience) {
  for (const auto& [signal, within] :
       {std::pair(SIGTERM, patience), std::pair(SIGKILL, kKilledWithin)}) {
    const std::vector<PlatformProcess> left = platform_processes(data);
    if (left.empty()) return {};
    for (const PlatformProcess& p : left)
      log::info("{} (pid {}) still runs: {}", p.name, p.pid,
                signal == SIGTERM ? "asked to end" : "killed");
    signal_all(left, signal);
    wait_for_all(left, within);
  }
  std::string names;
  for (const PlatformProcess& p : platform_processes(data))
    names += (names.empty() ? "" : ", ") + p.name + " (pid " + std::to_string(p.pid) + ")";
  if (names.empty()) return {};
  return Error{ErrorKind::kInternal, "still running: " + names};
}

}  // namespace sluice::cli
