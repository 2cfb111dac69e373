#include "node/program_start.h"

#include <fcntl.h>
#include <grp.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <charconv>
#include <cstring>

#include "base/system_error.h"
#include "process/log_folder.h"
#include "process/spawn.h"
#include "wire/http/endpoint.h"
#include "wire/permit_steps.h"

namespace sluice::node {
namespace {

// Descriptors that the program inherits, and that the child holds until it becomes the program.
constexpr int kHanded = 3, kGoSocket = 4;
constexpr char kPidVariable[] = "LISTEN_PID=";
constexpr size_t kPidDigits = 10;

// The child's data, made before the fork: after it, the child may only make system calls.
struct Plan {
  explicit Plan(ProgramStart s) : start(std::move(s)) {}
  Plan(const Plan&) = delete;  // it has pointers into itself

  ProgramStart start;
  std::vector<char*> argv = pointers_to(start.words), envp = pointers_to(start.variables);
  std::string excuse = start.words[0] + ": cannot be run: ";  // written if that fails
  char* listen_pid = nullptr;  // the digits of that variable; nullptr: absent
  Fd null{open("/dev/null", O_RDONLY | O_CLOEXEC)};
};

// Puts a copy at `to`, inherited by programs or not. It may lie there already.
void put(int from, int to, bool inherited) {
  if (from != to) dup3(from, to, inherited ? 0 : O_CLOEXEC);
  if (from == to) fcntl(to, F_SETFD, inherited ? 0 : FD_CLOEXEC);
}

// Moves them aside first, as one descriptor may lie where another belongs. Closes all others of the
// daemon's, above all its locks.
void arrange_descriptors(const Plan& plan, int control) {
  constexpr int kAside = 64;
  const ProgramStart& s = plan.start;
  const int handed = s.handed.valid() ? fcntl(s.handed.get(), F_DUPFD, kAside) : -1;
  control = fcntl(control, F_DUPFD, kAside);
  dup2(plan.null.get(), STDIN_FILENO);
  if (s.log.valid()) {
    dup2(s.log.get(), STDOUT_FILENO);
    dup2(s.log.get(), STDERR_FILENO);
  }
  if (handed >= 0) put(handed, kHanded, true);
  put(control, kGoSocket, false);
  if (handed < 0) close(kHanded);
  syscall(SYS_close_range, kGoSocket + 1, ~0U, 0);
}

bool become_user(uid_t uid) {
  if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0) return false;
  return uid == 0 || (setgroups(0, nullptr) == 0 && setresgid(uid, uid, uid) == 0 &&
                      setresuid(uid, uid, uid) == 0);
}

// After fork() in a program with threads: system calls alone.
[[noreturn]] void wait_and_become(Plan& plan, int control) {
  sigset_t none;
  sigemptyset(&none);
  sigprocmask(SIG_SETMASK, &none, nullptr);
  // A shell that starts the platform in the background has the daemon ignore some of them, which
  // a program would inherit.
  for (const int number : {SIGPIPE, SIGINT, SIGQUIT, SIGHUP}) signal(number, SIG_DFL);
  setsid();  // a terminal's Ctrl-C must not reach it
  arrange_descriptors(plan, control);
  setpriority(PRIO_PROCESS, 0, 0);  // the daemon's reserve is not for programs
  char word = 0;
  if (recv(kGoSocket, &word, sizeof word, 0) <= 0) _exit(1);  // the daemon is gone
  if (plan.listen_pid != nullptr)
    std::to_chars(plan.listen_pid, plan.listen_pid + kPidDigits, getpid());
  const std::string& folder = plan.start.folder;
  const bool is_there = become_user(plan.start.uid) && chdir(folder.c_str()) == 0;
  if (is_there) execve(plan.argv[0], plan.argv.data(), plan.envp.data());
  const char* why = strerrordesc_np(errno);
  if (!is_there) (void)!write(STDERR_FILENO, folder.data(), folder.size());
  if (!is_there) (void)!write(STDERR_FILENO, ": ", 2);
  (void)!write(STDERR_FILENO, plan.excuse.data(), plan.excuse.size());
  (void)!write(STDERR_FILENO, why, std::strlen(why));
  (void)!write(STDERR_FILENO, "\n", 1);
  _exit(127);
}

void fill_in_port(std::string& word, const std::string& port) {
  constexpr std::string_view kPort = "$(PORT)";
  for (size_t at = 0; (at = word.find(kPort, at)) != word.npos; at += port.size())
    word.replace(at, kPort.size(), port);
}

// Adds the address of the first part.
Result<void> add_address(const InstanceRecord& r, ProgramStart& start) {
  SLUICE_ASSIGN(at, wire::parse_endpoint(r.socket));
  if (at.path.empty()) {
    const std::string port = std::to_string(at.port);
    start.variables.push_back("PORT=" + port);
    for (std::string& word : start.words) fill_in_port(word, port);
    const auto& secrets = std::get<ExecOfProgram>(r.birth).secrets;
    for (std::string& variable : start.variables)
      if (!secrets.contains(variable.substr(0, variable.find('=')))) fill_in_port(variable, port);
    return {};
  }
  SLUICE_ASSIGN(listening, wire::listen_on(at));
  start.handed = std::move(listening);
  start.variables.emplace_back("LISTEN_FDS=1");
  start.variables.push_back(kPidVariable + std::string(kPidDigits, '\0'));
  return {};
}

}  // namespace

Result<ProgramStart> start_of(const InstanceRecord& r, size_t part, const Variables& variables) {
  const auto& birth = std::get<ExecOfProgram>(r.birth);
  ProgramStart start{.words = birth.command,
                     .variables = as_words(variables),
                     .folder = birth.folder.empty() ? "/" : birth.folder,
                     .uid = r.uid,
                     .handed = {},
                     .log = open_log(r.log)};
  if (part == 0) SLUICE_TRY(add_address(r, start));
  return start;
}

Result<Newborn> fork_waiting(asio::io_context& io, ProgramStart start) {
  SLUICE_ASSIGN(control, make_socket_pair());
  Plan plan(std::move(start));
  for (std::string& variable : plan.start.variables)
    if (variable.starts_with(kPidVariable))
      plan.listen_pid = variable.data() + std::strlen(kPidVariable);
  SLUICE_STEP("exec: planned");

  const pid_t pid = fork();
  if (pid < 0) return system_error("fork");
  if (pid == 0) wait_and_become(plan, control.theirs.get());
  Newborn born{.process = {},
               .pidfd = Fd(static_cast<int>(syscall(SYS_pidfd_open, pid, 0))),
               .control = Channel(io, std::move(control.ours))};
  SLUICE_STEP("exec: born");
  const auto process = identity_of(pid);
  if (!process)
    return Error{ErrorKind::kUnavailable,
                 "died before its first line: " + how_it_ended(born.pidfd.get())};
  born.process = *process;
  return born;
}

}  // namespace sluice::node
