#include "gpu/mps_program.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <vector>

#include "base/system_error.h"
#include "process/channel.h"

namespace sluice::node {
namespace {

constexpr std::string_view kPidFile = "/nvidia-cuda-mps-control.pid";
constexpr std::string_view kLongestSocket = "/control_privileged";  // of those beside it
constexpr size_t kLongestAnswer = 65536;

std::string pipes_variable(const MpsPlace& place) {
  return "CUDA_MPS_PIPE_DIRECTORY=" + place.pipes;
}
std::string gpu_variable(const MpsPlace& place) {
  return "CUDA_VISIBLE_DEVICES=" + place.gpu;
}

// Ours, without what was meant for another MPS: its limits would hold all clients.
std::vector<std::string> environment_of(const MpsPlace& place) {
  std::vector<std::string> variables =
      environment_without({"CUDA_MPS_", "CUDA_VISIBLE_DEVICES=", "SLUICE_PLATFORM="});
  variables.insert(variables.end(), {pipes_variable(place), gpu_variable(place),
                                     "CUDA_MPS_LOG_DIRECTORY=" + place.logs});
  return variables;
}

Result<SpawnedProcess> start(const MpsPlace& place, std::vector<std::string> words, int input,
                             int output) {
  return spawn(
      {.program = place.program,
       .words = std::move(words),
       .variables = environment_of(place),
       .files = {{input, STDIN_FILENO}, {output, STDOUT_FILENO}, {output, STDERR_FILENO}}});
}

// The strings of a file of /proc, which end with zeros.
std::vector<std::string> strings_in(const std::string& path) {
  std::vector<std::string> strings;
  std::ifstream file(path);
  for (std::string one; std::getline(file, one, '\0');) strings.push_back(one);
  return strings;
}

bool holds(const std::vector<std::string>& strings, const std::string& wanted) {
  return std::ranges::find(strings, wanted) != strings.end();
}

std::string contents(const Fd& file) {
  std::string text(kLongestAnswer, 0);
  const ssize_t n = pread(file.get(), text.data(), text.size(), 0);
  text.resize(n > 0 ? static_cast<size_t>(n) : 0);
  return text;
}

Result<void> make_folder(const std::string& folder, mode_t mode) {
  std::error_code fault;
  std::filesystem::create_directories(folder, fault);
  if (fault || chmod(folder.c_str(), mode) != 0)
    return system_error(folder, fault ? fault.value() : errno);
  return {};
}

bool succeeded(const Fd& pidfd) {
  siginfo_t info{};
  return waitid(P_PIDFD, static_cast<id_t>(pidfd.get()), &info, WEXITED) == 0 &&
         info.si_code == CLD_EXITED && info.si_status == 0;
}

}  // namespace

Result<std::string> find_mps_program(const std::string& name) {
  std::vector<std::string> candidates;
  if (name.find('/') != std::string::npos) {
    candidates.push_back(name);
  } else {
    const char* path = std::getenv("PATH");  // NOLINT(concurrency-mt-unsafe): nobody sets it
    std::istringstream folders(path == nullptr ? "/usr/bin" : path);
    for (std::string folder; std::getline(folders, folder, ':');)
      candidates.push_back(folder + "/" + name);
  }
  for (const std::string& candidate : candidates)
    if (access(candidate.c_str(), X_OK) == 0) return std::filesystem::absolute(candidate).string();
  return Error{ErrorKind::kNotFound, name + ": there is no such program"};
}

Result<void> prepare(const MpsPlace& place) {
  constexpr size_t kLongest = sizeof(sockaddr_un::sun_path) - 1 - kLongestSocket.size();
  if (place.pipes.size() > kLongest)
    return Error{ErrorKind::kInvalid, place.pipes + ": is longer than " + std::to_string(kLongest) +
                                          " bytes, too long for MPS's sockets in it"};
  const mode_t passable = geteuid() == 0 ? 0711 : 0700;
  SLUICE_TRY(make_folder(place.logs, 0700));
  SLUICE_TRY(make_folder(place.pipes, passable));
  return make_folder(std::filesystem::path(place.pipes).parent_path(), passable);
}

Result<SpawnedProcess> start_control_daemon(const MpsPlace& place) {
  const Fd input(open("/dev/null", O_RDONLY | O_CLOEXEC));
  const Fd output(open(place.output.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600));
  if (!input.valid() || !output.valid()) return system_error(place.output);
  return start(place, {"-f"}, input.get(), output.get());
}

std::optional<ProcessIdentity> running_control_daemon(const MpsPlace& place) {
  pid_t pid = 0;
  if (!(std::ifstream(place.pipes + std::string(kPidFile)) >> pid)) return std::nullopt;
  const std::optional<ProcessIdentity> process = identity_of(pid);
  if (!process || uid_of(pid) != geteuid()) return std::nullopt;
  const std::string proc = "/proc/" + std::to_string(pid);
  const std::vector<std::string> words = strings_in(proc + "/cmdline");
  const std::vector<std::string> variables = strings_in(proc + "/environ");
  const bool meant = holds(words, place.program) && holds(words, "-f") &&
                     holds(variables, pipes_variable(place)) &&
                     holds(variables, gpu_variable(place));
  return meant ? process : std::nullopt;
}

// Question and answer are files: a program that prints much, or runs on, delays no caller.
asio::awaitable<Result<std::string>> ask_control_daemon(asio::io_context& io, MpsPlace place,
                                                        MpsCommand command, Nanos patience) {
  const std::string line = line_of(command);
  const Fd question(memfd_create("mps-question", MFD_CLOEXEC));
  const Fd answer(memfd_create("mps-answer", MFD_CLOEXEC));
  if (!question.valid() || !answer.valid() ||
      pwrite(question.get(), line.data(), line.size(), 0) != static_cast<ssize_t>(line.size()))
    co_return system_error("memfd");
  const Result<SpawnedProcess> asker = start(place, {}, question.get(), answer.get());
  if (!asker.ok()) co_return asker.error();
  const Fd& pidfd = asker->pidfd;
  const bool answered = co_await ends_within(io, pidfd.get(), patience);
  if (!answered) {
    kill(asker->pid, SIGKILL);
    co_await wait_for_end(io, pidfd.get());
  }
  const bool well = succeeded(pidfd);
  if (!answered)
    co_return Error{ErrorKind::kTimeout,
                    "MPS does not answer within " + std::to_string(patience / Millis(1)) + " ms"};
  if (well) co_return contents(answer);
  co_return Error{ErrorKind::kUnavailable, refusal_in(contents(answer)).message};
}

}  // namespace sluice::node
