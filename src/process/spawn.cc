#include "process/spawn.h"

#include <signal.h>
#include <spawn.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>

#include "base/system_error.h"

namespace sluice::node {
namespace {

// The attributes for posix_spawn; all our descriptors are close-on-exec.
class SpawnPlan {
 public:
  explicit SpawnPlan(const std::vector<std::pair<int, int>>& descriptors) {
    posix_spawn_file_actions_init(&files_);
    for (const auto& [ours, its] : descriptors)
      posix_spawn_file_actions_adddup2(&files_, ours, its);
    posix_spawnattr_init(&attributes_);
    sigset_t none;
    sigemptyset(&none);
    posix_spawnattr_setsigmask(&attributes_, &none);
    posix_spawnattr_setflags(&attributes_, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSID);
  }
  ~SpawnPlan() {
    posix_spawn_file_actions_destroy(&files_);
    posix_spawnattr_destroy(&attributes_);
  }
  SpawnPlan(const SpawnPlan&) = delete;

  const posix_spawn_file_actions_t* files() const { return &files_; }
  const posix_spawnattr_t* attributes() const { return &attributes_; }

 private:
  posix_spawn_file_actions_t files_;
  posix_spawnattr_t attributes_;
};

}  // namespace

Result<SpawnedProcess> spawn(SpawnRequest request) {
  request.words.insert(request.words.begin(), request.program);
  const SpawnPlan plan(request.files);
  SpawnedProcess process;
  if (const int fault =
          posix_spawn(&process.pid, request.program.c_str(), plan.files(), plan.attributes(),
                      pointers_to(request.words).data(), pointers_to(request.variables).data());
      fault != 0)
    return system_error(request.program, fault);
  process.pidfd = Fd(static_cast<int>(syscall(SYS_pidfd_open, process.pid, 0)));
  if (process.pidfd.valid()) return process;
  const Error error = system_error("pidfd_open");
  kill(process.pid, SIGKILL);
  waitpid(process.pid, nullptr, 0);
  return error;
}

std::vector<char*> pointers_to(std::vector<std::string>& words) {
  std::vector<char*> pointers;
  for (std::string& word : words) pointers.push_back(word.data());
  pointers.push_back(nullptr);
  return pointers;
}

std::vector<std::string> environment_without(std::initializer_list<std::string_view> prefixes) {
  std::vector<std::string> variables;
  for (char** v = environ; *v != nullptr; ++v)
    if (const std::string_view variable(*v);
        std::ranges::none_of(prefixes, [&](auto prefix) { return variable.starts_with(prefix); }))
      variables.emplace_back(variable);
  return variables;
}

}  // namespace sluice::node
