#include "cli/supervisor.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/file.h>
#include <sys/signalfd.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>
#include <system_error>

#include "base/log.h"
#include "wire/http.h"

namespace sluice::cli {
namespace {

constexpr int kListenFd = 3;  // where a child finds its listening socket

Error system_error(const std::string& what) {
  return {ErrorKind::kInternal, what + ": " + std::generic_category().message(errno)};
}

int pidfd_open(int pid) {
  return static_cast<int>(syscall(SYS_pidfd_open, pid, 0));
}
int pidfd_getfd(int pidfd, int fd) {
  return static_cast<int>(syscall(SYS_pidfd_getfd, pidfd, fd, 0));
}
int pidfd_signal(int pidfd, int signal) {
  return static_cast<int>(syscall(SYS_pidfd_send_signal, pidfd, signal, nullptr, 0));
}

// Field 22 of /proc/PID/stat: with the pid, who a process is within one boot. 0: there is none.
uint64_t start_time(int pid) {
  std::ifstream in("/proc/" + std::to_string(pid) + "/stat");
  std::string text{std::istreambuf_iterator<char>(in), {}};
  const size_t paren = text.rfind(')');  // the name before it may hold anything
  if (paren == text.npos) return 0;
  std::istringstream fields(text.substr(paren + 1));
  std::string field;
  for (int i = 3; i <= 22; ++i) fields >> field;
  return fields ? std::stoull(field) : 0;
}

std::string boot_id() {
  std::ifstream in("/proc/sys/kernel/random/boot_id");
  std::string id;
  in >> id;
  return id;
}

bool ended(int pidfd, Nanos within) {
  pollfd p{pidfd, POLLIN, 0};
  return poll(&p, 1, static_cast<int>(within.count() / 1'000'000)) > 0;
}

}  // namespace

Result<Supervisor> Supervisor::open(const std::string& data) {
  Supervisor s;
  s.data_ = data;
  std::error_code fault;
  for (const char* folder : {"", "/run", "/run/i", "/logs"}) {
    std::filesystem::create_directories(data + folder, fault);
    if (fault) return Error{ErrorKind::kInternal, data + folder + ": " + fault.message()};
  }
  // Sockets lie in run/: others may pass through to permit.sock, and see nothing.
  ::chmod(data.c_str(), 0711);
  ::chmod((data + "/run").c_str(), 0711);
  ::chmod((data + "/run/i").c_str(), 0711);
  ::chmod((data + "/logs").c_str(), 0700);
  s.lock_.reset(::open((data + "/up.lock").c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600));
  if (!s.lock_.valid()) return system_error(data + "/up.lock");
  if (::flock(s.lock_.get(), LOCK_EX | LOCK_NB) != 0) {
    if (errno != EWOULDBLOCK) return system_error(data + "/up.lock");
    return Error{ErrorKind::kConflict, data + ": another `sluice up` runs on this data directory"};
  }
  return s;
}

std::string Supervisor::record_path(const Child& child) const {
  return data_ + "/run/" + child.spec.name + ".json";
}

Result<void> Supervisor::start(const std::vector<ChildSpec>& specs) {
  for (const ChildSpec& spec : specs) {
    Child child{.spec = spec};
    SLUICE_TRY(adopt(child));
    if (!child.pidfd.valid()) {
      if (!spec.listen.empty()) {
        SLUICE_ASSIGN(at, wire::parse_endpoint(spec.listen));
        SLUICE_ASSIGN(listening, wire::listen_on(at));
        child.listening = std::move(listening);
      }
      SLUICE_TRY(launch(child));
    }
    children_.push_back(std::move(child));
  }
  return {};
}

// Takes over a child of a supervisor that died: alive, of this boot, and the same process.
Result<void> Supervisor::adopt(Child& child) {
  std::ifstream in(record_path(child));
  const auto record = nlohmann::json::parse(in, nullptr, false);
  if (!record.is_object() || record.value("boot_id", "") != boot_id()) return {};
  const int pid = record.value("pid", 0);
  if (pid <= 0 || start_time(pid) != record.value("start_time", uint64_t{1})) return {};
  Fd pidfd(pidfd_open(pid));
  if (!pidfd.valid() || start_time(pid) != record.value("start_time", uint64_t{1})) return {};
  if (!child.spec.listen.empty()) {
    child.listening.reset(pidfd_getfd(pidfd.get(), kListenFd));
    if (!child.listening.valid()) {
      // Without its socket we could not restart it later: replace it now, in order.
      pidfd_signal(pidfd.get(), SIGTERM);
      if (!ended(pidfd.get(), Seconds(30))) pidfd_signal(pidfd.get(), SIGKILL);
      ended(pidfd.get(), Seconds(5));
      return {};
    }
    ::fcntl(child.listening.get(), F_SETFD, FD_CLOEXEC);
  }
  child.pid = pid;
  child.pidfd = std::move(pidfd);
  child.started = clock_.now();
  log::info("{}: adopted, pid {}", child.spec.name, pid);
  return {};
}

Result<void> Supervisor::launch(Child& child) {
  std::vector<std::string> command = child.spec.command;
  for (std::string& word : command)
    if (word == "{fd}") word = std::to_string(kListenFd);
  std::vector<char*> argv;
  for (std::string& word : command) argv.push_back(word.data());
  argv.push_back(nullptr);
  const std::string log_path = data_ + "/logs/" + child.spec.name + ".log";
  const Fd log(::open(log_path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600));
  if (!log.valid()) return system_error(log_path);

  const int pid = ::fork();
  if (pid < 0) return system_error("fork");
  if (pid == 0) {
    // Only async-signal-safe calls from here. A session of its own: our terminal's Ctrl-C is ours.
    ::setsid();
    sigset_t none;
    sigemptyset(&none);
    ::sigprocmask(SIG_SETMASK, &none, nullptr);
    ::dup2(log.get(), STDOUT_FILENO);
    ::dup2(log.get(), STDERR_FILENO);
    if (child.listening.valid()) {
      if (child.listening.get() == kListenFd)
        ::fcntl(kListenFd, F_SETFD, 0);
      else
        ::dup2(child.listening.get(), kListenFd);
    }
    ::execv(argv[0], argv.data());
    ::_exit(127);
  }
  child.pid = pid;
  child.pidfd.reset(pidfd_open(pid));
  child.started = clock_.now();
  note(child);
  log::info("{}: started, pid {}", child.spec.name, pid);
  return {};
}

// Who it is, for the next supervisor. Written aside and renamed: never half there.
void Supervisor::note(const Child& child) const {
  const std::string path = record_path(child);
  {
    std::ofstream out(path + ".new");
    out << nlohmann::json{
        {"pid", child.pid}, {"start_time", start_time(child.pid)}, {"boot_id", boot_id()}};
  }
  std::error_code fault;
  std::filesystem::rename(path + ".new", path, fault);
  if (fault) log::warn("{}: {}: a later `up` could not adopt it", path, fault.message());
}

void Supervisor::reap(Child& child) {
  int status = 0;
  ::waitpid(child.pid, &status, WNOHANG);  // an adopted one is not ours to wait for
  const Nanos lived = clock_.now() - child.started;
  child.pause = lived > Seconds(10)
                    ? Nanos(0)
                    : std::min<Nanos>(std::max<Nanos>(child.pause * 2, Millis(100)), Seconds(5));
  child.restart_at = clock_.now() + child.pause;
  child.pidfd.reset();
  log::warn("{}: pid {} ended ({}); starting it again in {} ms", child.spec.name, child.pid,
            WIFSIGNALED(status) ? "signal " + std::to_string(WTERMSIG(status))
                                : "status " + std::to_string(WEXITSTATUS(status)),
            child.pause.count() / 1'000'000);
}

void Supervisor::run(Nanos patience) {
  sigset_t ending;
  sigemptyset(&ending);
  sigaddset(&ending, SIGINT);
  sigaddset(&ending, SIGTERM);
  ::sigprocmask(SIG_BLOCK, &ending, nullptr);
  const Fd signals(::signalfd(-1, &ending, SFD_CLOEXEC));
  for (;;) {
    std::vector<pollfd> watched{{signals.get(), POLLIN, 0}};
    Time next = Time::max();
    for (const Child& c : children_) {
      watched.push_back({c.pidfd.get(), POLLIN, 0});  // −1 is passed over
      if (!c.pidfd.valid()) next = std::min(next, c.restart_at);
    }
    const int wait =
        next == Time::max()
            ? -1
            : static_cast<int>(std::max<int64_t>(0, (next - clock_.now()).count() / 1'000'000 + 1));
    ::poll(watched.data(), watched.size(), wait);
    if (watched[0].revents != 0) break;
    for (size_t i = 0; i < children_.size(); ++i) {
      Child& c = children_[i];
      if (watched[i + 1].revents != 0) reap(c);
      if (!c.pidfd.valid() && c.restart_at <= clock_.now())
        if (const auto started = launch(c); !started.ok()) {
          log::error("{}: {}", c.spec.name, started.error().message);
          c.restart_at = clock_.now() + Seconds(5);
        }
    }
  }
  for (auto child = children_.rbegin(); child != children_.rend(); ++child) stop(*child, patience);
}

void Supervisor::stop(Child& child, Nanos patience) {
  if (child.spec.before_stop) child.spec.before_stop();
  if (child.pidfd.valid()) {
    pidfd_signal(child.pidfd.get(), SIGTERM);
    if (!ended(child.pidfd.get(), patience)) {
      log::warn("{}: still there after {} s: killed", child.spec.name,
                patience.count() / 1'000'000'000);
      pidfd_signal(child.pidfd.get(), SIGKILL);
      ended(child.pidfd.get(), Seconds(5));
    }
    ::waitpid(child.pid, nullptr, WNOHANG);
  }
  std::filesystem::remove(record_path(child));
  log::info("{}: stopped", child.spec.name);
}

}  // namespace sluice::cli
