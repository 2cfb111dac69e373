#include "node/exec_launcher.h"

#include <fcntl.h>
#include <grp.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <charconv>
#include <cstring>

#include "base/system_error.h"
#include "node/readiness.h"
#include "process/log_folder.h"
#include "process/spawn.h"
#include "wire/permit_steps.h"

namespace sluice::node {
namespace {

// Descriptors that the program inherits, and that the child holds until it becomes the program.
constexpr int kServingSocket = 3, kGoSocket = 4;
constexpr char kPidVariable[] = "LISTEN_PID=";
constexpr size_t kPidDigits = 10;

// The child's data, made before the fork: after it, the child may only make system calls.
struct Plan {
  std::vector<std::string> words, variables;
  std::vector<char*> argv, envp;
  std::string folder;          // where it begins
  std::string excuse;          // what it writes if it cannot become the program
  char* listen_pid = nullptr;  // the digits of that variable; nullptr: absent
  Fd serving, control, log, null;
  uid_t uid = 0;
};

// Puts a copy at `to`, inherited by programs or not. It may lie there already.
void put(int from, int to, bool inherited) {
  if (from != to) dup3(from, to, inherited ? 0 : O_CLOEXEC);
  if (from == to) fcntl(to, F_SETFD, inherited ? 0 : FD_CLOEXEC);
}

// Moves them aside first, as one descriptor may lie where another belongs. Closes all others of the
// daemon's, above all its locks.
void arrange_descriptors(const Plan& plan) {
  constexpr int kAside = 64;
  const int serving = plan.serving.valid() ? fcntl(plan.serving.get(), F_DUPFD, kAside) : -1;
  const int control = fcntl(plan.control.get(), F_DUPFD, kAside);
  dup2(plan.null.get(), STDIN_FILENO);
  if (plan.log.valid()) {
    dup2(plan.log.get(), STDOUT_FILENO);
    dup2(plan.log.get(), STDERR_FILENO);
  }
  if (serving >= 0) put(serving, kServingSocket, true);
  put(control, kGoSocket, false);
  if (serving < 0) close(kServingSocket);
  syscall(SYS_close_range, kGoSocket + 1, ~0U, 0);
}

bool become_user(uid_t uid) {
  if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0) return false;
  return uid == 0 || (setgroups(0, nullptr) == 0 && setresgid(uid, uid, uid) == 0 &&
                      setresuid(uid, uid, uid) == 0);
}

// After fork() in a program with threads: system calls alone.
[[noreturn]] void wait_and_become(Plan& plan) {
  sigset_t none;
  sigemptyset(&none);
  sigprocmask(SIG_SETMASK, &none, nullptr);
  signal(SIGPIPE, SIG_DFL);
  setsid();  // a terminal's Ctrl-C must not reach it
  arrange_descriptors(plan);
  setpriority(PRIO_PROCESS, 0, 0);  // the daemon's reserve is not for programs
  char word = 0;
  if (recv(kGoSocket, &word, sizeof word, 0) <= 0) _exit(1);  // the daemon is gone
  if (plan.listen_pid != nullptr)
    std::to_chars(plan.listen_pid, plan.listen_pid + kPidDigits, getpid());
  const bool is_there = become_user(plan.uid) && chdir(plan.folder.c_str()) == 0;
  if (is_there) execve(plan.argv[0], plan.argv.data(), plan.envp.data());
  const char* why = strerrordesc_np(errno);
  if (!is_there) (void)!write(STDERR_FILENO, plan.folder.data(), plan.folder.size());
  if (!is_there) (void)!write(STDERR_FILENO, ": ", 2);
  (void)!write(STDERR_FILENO, plan.excuse.data(), plan.excuse.size());
  (void)!write(STDERR_FILENO, why, std::strlen(why));
  (void)!write(STDERR_FILENO, "\n", 1);
  _exit(127);
}

wire::Endpoint address_of(const InstanceRecord& r) {
  return wire::parse_endpoint(r.socket).value_or({});
}

void fill_in_port(std::string& word, const std::string& port) {
  constexpr std::string_view kPort = "$(PORT)";
  for (size_t at = 0; (at = word.find(kPort, at)) != word.npos; at += port.size())
    word.replace(at, kPort.size(), port);
}

// Adds the address of the first part, which serves: a descriptor that already listens, or a port
// that it binds itself.
Result<void> add_address(const InstanceRecord& r, Plan& plan) {
  const wire::Endpoint at = address_of(r);
  if (at.path.empty()) {
    const std::string port = std::to_string(at.port);
    plan.variables.push_back("PORT=" + port);
    for (std::string& word : plan.words) fill_in_port(word, port);
    const auto& secrets = std::get<ExecOfProgram>(r.birth).secrets;
    for (std::string& variable : plan.variables)
      if (!secrets.contains(variable.substr(0, variable.find('=')))) fill_in_port(variable, port);
    return {};
  }
  SLUICE_ASSIGN(listening, wire::listen_on(at));
  plan.serving = std::move(listening);
  plan.variables.emplace_back("LISTEN_FDS=1");
  plan.variables.push_back(kPidVariable + std::string(kPidDigits, '\0'));
  return {};
}

Result<Plan> plan_for(const InstanceRecord& r, size_t part, const Variables& variables) {
  const auto& birth = std::get<ExecOfProgram>(r.birth);
  Plan plan{.words = birth.command,
            .variables = as_words(variables),
            .folder = birth.folder.empty() ? "/" : birth.folder,
            .uid = r.uid};
  if (part == 0) SLUICE_TRY(add_address(r, plan));
  plan.excuse = plan.words[0] + ": cannot be run: ";
  plan.log = open_log(r.log);
  plan.null = Fd(open("/dev/null", O_RDONLY | O_CLOEXEC));
  return plan;
}

void point(Plan& plan) {
  plan.argv = pointers_to(plan.words);
  plan.envp = pointers_to(plan.variables);
  if (plan.serving.valid())
    plan.listen_pid = plan.variables.back().data() + std::strlen(kPidVariable);
}

}  // namespace

ExecLauncher::ExecLauncher(asio::io_context& io, const Clock& clock, EnvironmentOf environment,
                           Nanos ready_patience)
    : io_(io),
      clock_(clock),
      environment_(std::move(environment)),
      ready_patience_(ready_patience) {}

asio::awaitable<Result<Newborn>> ExecLauncher::bear(const InstanceRecord& r, size_t part) {
  const Result<Variables> variables = environment_(r, part);
  if (!variables.ok()) co_return variables.error();
  Result<Plan> plan = plan_for(r, part, *variables);
  if (!plan.ok()) co_return plan.error();
  Result<SocketPair> control = make_socket_pair();
  if (!control.ok()) co_return control.error();
  plan->control = std::move(control->theirs);
  point(*plan);
  SLUICE_STEP("exec: planned");

  const pid_t pid = fork();
  if (pid < 0) co_return system_error("fork");
  if (pid == 0) wait_and_become(*plan);
  Newborn born{.pidfd = Fd(static_cast<int>(syscall(SYS_pidfd_open, pid, 0))),
               .control = Channel(io_, std::move(control->ours))};
  SLUICE_STEP("exec: born");
  const auto process = identity_of(pid);
  if (!process)
    co_return Error{ErrorKind::kUnavailable,
                    "died before its first line: " + how_it_ended(born.pidfd.get())};
  born.process = *process;
  co_return std::move(born);
}

Result<void> ExecLauncher::go(const Infant& infant) {
  return infant.control.send(wire::Go{});
}

asio::awaitable<Result<void>> ExecLauncher::wait_until_ready(const Infant& infant) {
  const auto& birth = std::get<ExecOfProgram>(infant.record.birth);
  const Probe probe{address_of(infant.record), birth.ready_path, infant.record.uid};
  const Nanos patience = birth.ready_within > Nanos(0) ? birth.ready_within : ready_patience_;
  co_return co_await ready_within(io_, clock_, probe, infant.pidfd, patience);
}

Result<int> free_port(const std::function<bool(int)>& taken) {
  std::vector<Fd> passed_over;  // bound meanwhile, so that the kernel does not choose them again
  for (;;) {
    SLUICE_ASSIGN(listening, wire::listen_on({.host = "127.0.0.1"}));
    SLUICE_ASSIGN(at, wire::bound_to(listening));
    if (!taken(at.port)) return static_cast<int>(at.port);
    passed_over.push_back(std::move(listening));
  }
}

}  // namespace sluice::node
