// conformance [LIBRARY]: asks a CUDA driver (libcuda.so.1, unless named) what Sluice relies on, one
// promise a line. Ends with 0 if all are kept, 1 if not, 2 if there is no such driver. The same
// program asks the emulated driver, a hook before it, and a real one: where they differ, the
// emulated one is wrong.
//
// A group of checks runs in a process of its own, since a driver may crash or hang. It makes no
// call that the driver's manual leaves undefined.
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>

#include "driver.h"

using namespace conformance;

namespace {
constexpr unsigned kSeconds = 10;  // a group that takes longer is ended by SIGALRM

// Where the emulated driver, should it be that one, keeps its device. Removed at the end.
struct Scratch {
  Scratch() {
    char name[] = "/tmp/sluice-conformance-XXXXXX";
    folder = mkdtemp(name);
    setenv("SLUICE_EMULATED_GPU", (folder + "/gpu").c_str(), 0);
  }
  ~Scratch() { std::filesystem::remove_all(folder); }
  std::string folder;
};

struct Group {
  const char* name;
  void (*check)(const Bench&);
  bool in_context = true;  // the primary context is current, with the module
};
constexpr Group kGroups[] = {
    {"initialisation", check_initialisation, false},
    {"symbols", check_symbols, false},
    {"devices", check_devices, false},
    {"contexts", check_contexts},
    {"attachments", check_attachments},
    {"default streams", check_default_streams},
    {"events", check_events},
    {"other contexts", check_other_contexts},
    {"host functions", check_host_functions},
    {"streams", check_streams},
    {"launches", check_launches},
    {"capture", check_capture},
    {"what breaks a capture", check_what_breaks_a_capture},
    {"host nodes", check_host_nodes},
    {"graphs", check_graphs},
    {"captured memory", check_captured_memory},
    {"what outlives a launch", check_what_outlives_a_launch},
    {"what graphs refuse", check_what_graphs_refuse},
    {"memory", check_memory},
    {"managed memory", check_managed_memory},
    {"shared memory", check_shared_memory},
    {"pools", check_pools},
    {"virtual memory", check_virtual_memory},
    {"fork", check_fork},
    {"faults", check_faults},
};

[[noreturn]] void run_here(const Driver& cu, const Group& group) {
  alarm(kSeconds);
  Bench bench{cu};
  if (!group.in_context || make_bench(bench)) group.check(bench);
  progress.last_call = "exit";
  std::exit(0);
}

// In a child: this process never calls the driver, whose state does not survive a fork.
void run(const Driver& cu, const Group& group) {
  std::printf("%s:\n", group.name);
  progress.last_call = "none";
  const pid_t child = fork();
  if (child == 0) run_here(cu, group);
  int status = -1;
  waitpid(child, &status, 0);
  if (status == 0) return;
  const std::string end = WIFSIGNALED(status) ? "signal " + std::to_string(WTERMSIG(status))
                                              : "status " + std::to_string(WEXITSTATUS(status));
  Report().check(
      false, std::string(group.name) + ": " + end + ", last call: " + progress.last_call.load());
}
}  // namespace

int main(int count, char** arguments) {
  std::setvbuf(stdout, nullptr, _IOLBF, 0);
  const Scratch scratch;
  const Driver* cu = open_driver(count > 1 ? arguments[1] : "libcuda.so.1");
  if (cu == nullptr) return 2;
  for (const Group& group : kGroups) run(*cu, group);
  std::printf("%d kept, %d broken\n", progress.kept, progress.broken);
  return progress.broken == 0 ? 0 : 1;
}
