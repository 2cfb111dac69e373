#include "cli/supervisor.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <system_error>

#include "base/log.h"
#include "base/printable.h"
#include "base/replace_file.h"
#include "base/system_error.h"
#include "cli/flags_differ.h"
#include "cli/inherited.h"
#include "cli/platform_processes.h"
#include "cli/run_folder.h"
#include "enforce/cgroup.h"
#include "process/log_folder.h"
#include "process/spawn.h"

namespace sluice::cli {
namespace {

// A child that lived this long has completed its start.
constexpr Nanos kSettled = Seconds(10);   // until then a failed start ends `up`
constexpr Nanos kLivedWell = Seconds(1);  // after it a dead process is restarted at once
constexpr Nanos kLongestPause = Seconds(5);

constexpr Nanos kServesOnEndsWithin = Seconds(45);  // it finishes what it has
constexpr Nanos kEndsWithin = Seconds(10);          // for processes that the children left behind

int pidfd_open(int pid) {
  return static_cast<int>(syscall(SYS_pidfd_open, pid, 0));
}
int pidfd_getfd(int pidfd, int fd) {
  return static_cast<int>(syscall(SYS_pidfd_getfd, pidfd, fd, 0));
}
int pidfd_signal(int pidfd, int signal) {
  return static_cast<int>(syscall(SYS_pidfd_send_signal, pidfd, signal, nullptr, 0));
}

bool ended(int pidfd, Nanos within) {
  pollfd p{pidfd, POLLIN, 0};
  return poll(&p, 1, static_cast<int>(within / Millis(1))) > 0;
}

void end_process(int pidfd, const std::string& name, Nanos patience) {
  pidfd_signal(pidfd, SIGTERM);
  if (ended(pidfd, patience)) return;
  log::warn("{}: still there after {} s: killed", name, patience / Seconds(1));
  pidfd_signal(pidfd, SIGKILL);
  ended(pidfd, Seconds(5));
}

std::string lock_path(const std::string& data) {
  return data + "/up.lock";
}
std::string child_lock_path(const std::string& data, const std::string& name) {
  return data + "/run/" + name + ".lock";
}

sigset_t ending_signals() {
  sigset_t set;
  sigemptyset(&set);
  for (const int signal : {SIGINT, SIGTERM, SIGUSR1}) sigaddset(&set, signal);
  return set;
}

std::string how_it_ended(int status) {
  return WIFSIGNALED(status) ? "signal " + std::to_string(WTERMSIG(status))
                             : "status " + std::to_string(WEXITSTATUS(status));
}

// Returns the last line of its log; a full disk leaves none.
std::string last_words(const std::string& log, int status) {
  std::ifstream in(log);
  std::string last;
  for (std::string line; std::getline(in, line);)
    if (!line.empty()) last = line;
  if (last.starts_with("sluice: ")) last.erase(0, 8);
  if (!last.empty()) return printable(last) + " (" + log + ")";
  std::error_code fault;
  const bool full = std::filesystem::space(log, fault).available == 0 && !fault;
  return how_it_ended(status) +
         (full ? ", " + log + ": No space left on device" : ", without a word");
}

std::vector<std::string> command_of(int pid) {
  std::ifstream in("/proc/" + std::to_string(pid) + "/cmdline");
  std::vector<std::string> words;
  for (std::string word; std::getline(in, word, '\0');) words.push_back(word);
  return words;
}

// Returns whether an address `at` satisfies the `wanted` one.
bool serves(const wire::Endpoint& at, const wire::Endpoint& wanted) {
  return at.path == wanted.path && at.host == wanted.host &&
         (wanted.port == 0 || at.port == wanted.port);
}

}  // namespace

Result<Supervisor> Supervisor::open(const std::string& data) {
  Supervisor s;
  s.data_ = data;
  std::error_code fault;
  std::filesystem::create_directories(data, fault);
  if (fault) return system_error(data, fault.value());
  SLUICE_TRY(make_run_folder(data));
  for (const char* folder : {"/run/i", "/logs"}) {
    std::filesystem::create_directories(data + folder, fault);
    if (fault) return system_error(data + folder, fault.value());
  }
  // Sockets lie in run/: other users may pass through to permit.sock, and see nothing.
  ::chmod(data.c_str(), 0711);
  ::chmod((data + "/run/i").c_str(), 0711);
  ::chmod((data + "/logs").c_str(), 0700);
  // First: `sluice down` may signal the lock's holder.
  const sigset_t ending = ending_signals();
  ::sigprocmask(SIG_BLOCK, &ending, nullptr);
  Result<Fd> lock = take_lock(lock_path(data));
  if (!lock.ok() && lock.error().kind == ErrorKind::kConflict)
    return Error{ErrorKind::kConflict, data + ": another `sluice up` runs on this data directory"};
  if (!lock.ok()) return lock.error();
  s.lock_ = std::move(*lock);
  return s;
}

Result<std::optional<LockHolder>> Supervisor::holder(const std::string& data) {
  return open_lock_holder(lock_path(data));
}

Result<std::optional<LockHolder>> Supervisor::child(const std::string& data,
                                                    const std::string& name) {
  return open_lock_holder(child_lock_path(data, name));
}

std::string Supervisor::log_path(const Child& child) const {
  return data_ + "/logs/" + child.spec.name + ".log";
}

// ---- adoption ----------------------------------------------------------------------------------

Result<void> Supervisor::adopt(const std::vector<ChildSpec>& specs) {
  for (const ChildSpec& spec : specs) {
    Child child{.spec = spec};
    SLUICE_TRY(adopt(child));
    children_.push_back(std::move(child));
  }
  return {};
}

Result<void> Supervisor::adopt(Child& child) {
  SLUICE_ASSIGN(running, Supervisor::child(data_, child.spec.name));
  if (!running) return {};
  if (!take_sockets(child, running->pidfd.get())) {
    // Without its sockets it could not be restarted later: replace it now, in order.
    log::info("{}: pid {} cannot be adopted; replacing it", child.spec.name, running->pid);
    end_process(running->pidfd.get(), child.spec.name, Seconds(30));
    return {};
  }
  if (serves_on(child, running->pid)) {
    child.replaces = std::move(running->pidfd);
    return {};
  }
  child.pid = running->pid;
  child.pidfd = std::move(running->pidfd);
  child.started = clock_.now();
  log::info("{}: adopted, pid {}", child.spec.name, child.pid);
  return {};
}

std::string Supervisor::mark_path(const Child& child) const {
  return data_ + "/run/" + child.spec.name + ".serves_on";
}

// The mark of an earlier time names another process than the one that holds the lock.
bool Supervisor::serves_on(const Child& child, int pid) const {
  int marked = 0;
  return child.spec.serves_on && std::ifstream(mark_path(child)) >> marked && marked == pid;
}

bool Supervisor::take_sockets(Child& child, int pidfd) {
  child.listening.clear();
  for (size_t i = 0; i < child.spec.listen.size(); ++i) {
    Fd taken(pidfd_getfd(pidfd, kListenFd + static_cast<int>(i)));
    if (!taken.valid() || !wire::bound_to(taken).ok()) {
      child.listening.clear();
      return false;
    }
    ::fcntl(taken.get(), F_SETFD, FD_CLOEXEC);
    child.listening.push_back(std::move(taken));
  }
  return true;
}

void Supervisor::warn_of_differences() const {
  for (const Child& child : children_) {
    if (!child.pidfd.valid()) continue;
    std::string said = flags_that_differ(command_of(child.pid), child.spec.command);
    for (size_t i = 0; i < child.listening.size(); ++i) {
      const auto at = wire::bound_to(child.listening[i]);
      const auto wanted = wire::parse_endpoint(child.spec.listen[i]);
      if (at.ok() && wanted.ok() && !serves(*at, *wanted))
        said += (said.empty() ? "" : ", ") + wire::to_string(*at) + " (not " +
                child.spec.listen[i] + ")";
    }
    if (!said.empty())
      log::warn("{}: goes on as it was started: {}; `sluice down --keep` first changes that",
                child.spec.name, said);
  }
}

bool Supervisor::listens_where_wanted(const Child& child) {
  for (size_t i = 0; i < child.listening.size(); ++i) {
    const auto at = wire::bound_to(child.listening[i]);
    const auto wanted = wire::parse_endpoint(child.spec.listen[i]);
    if (!at.ok() || !wanted.ok() || !serves(*at, *wanted)) return false;
  }
  return true;
}

// Ends the process that serves on. Connections wait in the sockets until the next one runs.
void Supervisor::end_replaced(Child& child) const {
  if (!child.replaces.valid()) return;
  log::info("{}: ending the one that has served on", child.spec.name);
  end_process(child.replaces.get(), child.spec.name, kServesOnEndsWithin);
  child.replaces.reset();
  ::unlink(mark_path(child).c_str());
}

bool Supervisor::has_children() const {
  return std::ranges::any_of(children_, [](const Child& c) { return c.pidfd.valid(); });
}

// ---- starting ----------------------------------------------------------------------------------

Result<void> Supervisor::listen() {
  for (Child& child : children_) {
    if (child.pidfd.valid()) continue;
    if (child.replaces.valid() && listens_where_wanted(child)) continue;
    child.listening.clear();
    end_replaced(child);  // its address may be the wanted one, written in another way
    for (const std::string& address : child.spec.listen) {
      SLUICE_ASSIGN(at, wire::parse_endpoint(address));
      SLUICE_ASSIGN(listening, wire::listen_on(at));
      child.listening.push_back(std::move(listening));
    }
  }
  return {};
}

Result<std::vector<wire::Endpoint>> Supervisor::addresses(const std::string& name) const {
  const auto child = std::ranges::find(children_, name, [](const Child& c) { return c.spec.name; });
  if (child == children_.end()) return Error{ErrorKind::kNotFound, "no process '" + name + "'"};
  std::vector<wire::Endpoint> out;
  for (const Fd& socket : child->listening) {
    SLUICE_ASSIGN(at, wire::bound_to(socket));
    out.push_back(at);
  }
  return out;
}

Result<void> Supervisor::start() {
  for (Child& child : children_)
    if (!child.pidfd.valid()) {
      end_replaced(child);
      if (auto launched = launch(child); !launched.ok()) {
        (void)stop(End::kToReturn, Seconds(5));
        return launched;
      }
    }
  return {};
}

Result<void> Supervisor::launch(Child& child) {
  std::vector<std::string> command = child.spec.command;
  std::vector<char*> argv;
  for (std::string& word : command) argv.push_back(word.data());
  argv.push_back(nullptr);
  std::vector<std::string> variables = node::environment_without({"SLUICE_PLATFORM="});
  variables.push_back(platform_variable(data_));
  std::vector<char*> environment;
  for (std::string& variable : variables) environment.push_back(variable.data());
  environment.push_back(nullptr);
  const std::string lock = child_lock_path(data_, child.spec.name);
  const std::string unlocked = "sluice: " + lock + ": cannot be locked\n";
  const std::string path = log_path(child);
  const Fd log = node::open_log(path);

  const int pid = ::fork();
  if (pid < 0) return system_error("fork");
  if (pid == 0) {
    // Only async-signal-safe calls from here. A session of its own: our terminal's Ctrl-C must not
    // reach it.
    ::setsid();
    ::setpriority(PRIO_PROCESS, 0, node::kReserveNice);  // if allowed
    sigset_t none;
    sigemptyset(&none);
    ::sigprocmask(SIG_SETMASK, &none, nullptr);
    ::dup2(log.get(), STDOUT_FILENO);
    ::dup2(log.get(), STDERR_FILENO);
    // Moves them aside first: one socket may lie where another belongs.
    constexpr int kAside = 64;
    for (size_t i = 0; i < child.listening.size(); ++i)
      ::dup3(child.listening[i].get(), kAside + static_cast<int>(i), O_CLOEXEC);
    for (size_t i = 0; i < child.listening.size(); ++i)
      ::dup2(kAside + static_cast<int>(i), kListenFd + static_cast<int>(i));
    if (!lock_for_program(lock.c_str(), kLockFd)) {
      (void)!::write(STDERR_FILENO, unlocked.data(), unlocked.size());
      ::_exit(1);
    }
    ::execve(argv[0], argv.data(), environment.data());
    ::_exit(127);
  }
  child.pid = pid;
  child.pidfd.reset(pidfd_open(pid));
  child.started = clock_.now();
  log::info("{}: started, pid {}", child.spec.name, pid);
  return {};
}

// ---- watching ----------------------------------------------------------------------------------

// Returns an error if it failed at once: its arguments are wrong, and another try would not help.
Result<void> Supervisor::reap(Child& child) {
  int status = 0;
  // An adopted child cannot be waited for: its exit status is unknown.
  const bool known = ::waitpid(child.pid, &status, WNOHANG) == child.pid;
  const bool settled = clock_.now() - child.started > kSettled;
  child.pidfd.reset();
  if (known && child.first && !settled && WIFEXITED(status) && WEXITSTATUS(status) != 0)
    return Error{ErrorKind::kInternal,
                 child.spec.name + ": " + last_words(log_path(child), status)};
  child.first = false;
  const bool lived_well = clock_.now() - child.started > kLivedWell;
  child.pause =
      lived_well ? Nanos(0) : std::clamp<Nanos>(child.pause * 2, Millis(100), kLongestPause);
  child.restart_at = clock_.now() + child.pause;
  log::warn("{}: pid {} ended ({}); starting it again in {} ms", child.spec.name, child.pid,
            known ? how_it_ended(status) : "adopted", child.pause / Millis(1));
  return {};
}

void Supervisor::restart(Child& child) {
  const auto started = launch(child);
  if (started.ok()) return;
  log::error("{}: {}", child.spec.name, started.error().message);
  if (!child.pidfd.valid()) child.restart_at = clock_.now() + kLongestPause;
}

Result<void> Supervisor::run(Nanos patience) {
  const sigset_t ending = ending_signals();
  const Fd signals(::signalfd(-1, &ending, SFD_CLOEXEC));
  for (;;) {
    std::vector<pollfd> watched{{signals.get(), POLLIN, 0}};
    Time next = Time::max();
    for (const Child& c : children_) {
      watched.push_back({c.pidfd.get(), POLLIN, 0});  // −1 is ignored
      if (!c.pidfd.valid()) next = std::min(next, c.restart_at);
    }
    const int wait =
        next == Time::max()
            ? -1
            : static_cast<int>(std::max<int64_t>(0, (next - clock_.now()) / Millis(1) + 1));
    ::poll(watched.data(), watched.size(), wait);
    if (watched[0].revents != 0) break;
    for (size_t i = 0; i < children_.size(); ++i) {
      Child& c = children_[i];
      if (watched[i + 1].revents != 0)
        if (auto reaped = reap(c); !reaped.ok()) {
          (void)stop(End::kToReturn, patience);
          return reaped;
        }
      if (!c.pidfd.valid() && c.restart_at <= clock_.now()) restart(c);
    }
  }
  signalfd_siginfo got{};
  const bool read_whole = ::read(signals.get(), &got, sizeof(got)) == sizeof(got);
  return stop(read_whole && got.ssi_signo == SIGUSR1 ? End::kKeep : End::kForGood, patience);
}

Result<void> Supervisor::stop(End end, Nanos patience) {
  for (auto child = children_.rbegin(); child != children_.rend(); ++child)
    stop(*child, end, patience);
  // Processes that a killed node daemon left behind, and those that it was starting at its end.
  if (end == End::kForGood) return end_platform_processes(data_, kEndsWithin);
  for (const Child& c : children_) {
    SLUICE_ASSIGN(left, Supervisor::child(data_, c.spec.name));
    if (left && !serves_on(c, left->pid))
      return Error{ErrorKind::kInternal,
                   "still running: " + c.spec.name + " (pid " + std::to_string(left->pid) + ")"};
  }
  return {};
}

void Supervisor::stop(Child& child, End end, Nanos patience) {
  if (end == End::kForGood && child.spec.before_stop) child.spec.before_stop();
  if (end == End::kForGood) end_replaced(child);
  if (end == End::kKeep && child.spec.serves_on && child.pidfd.valid()) {
    const auto marked = replace_file(mark_path(child), std::to_string(child.pid) + "\n");
    if (!marked.ok()) log::warn("{}: {}", child.spec.name, marked.error().message);
    if (marked.ok()) return child.pidfd.reset();
  }
  if (child.pidfd.valid()) {
    end_process(child.pidfd.get(), child.spec.name, patience);
    ::waitpid(child.pid, nullptr, WNOHANG);
    child.pidfd.reset();
    log::info("{}: stopped", child.spec.name);
  }
}

}  // namespace sluice::cli
