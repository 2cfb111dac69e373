// gpu_launch: the hook's cost per launch on a real driver: ns per launch of a kernel that does
// nothing, and of a graph of them, by a program with the whole device's permit, under the hook and
// without it, in turn.
//
//   gpu_launch --hook LIBRARY [--rounds N] [--json FILE]
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstring>
#include <vector>

#include "bench/gpu/gpu.h"
#include "bench/report.h"
#include "bench/sliced_device.h"

namespace sluice::bench {
namespace {

constexpr int kLaunches = 20'000;  // a timing; more than fit into the device's queue at once
constexpr int kNodes = 20;         // of the graph

struct Timing {
  double launch_ns = 0, graph_ns = 0;
};

CUgraphExec graph_of(const Gpu& gpu, CUfunction kernel, CUstream stream) {
  CUgraph graph = nullptr;
  CUgraphExec exec = nullptr;
  GPU_CHECK(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL));
  for (int i = 0; i < kNodes; ++i) gpu.launch(kernel, stream);
  GPU_CHECK(cuStreamEndCapture(stream, &graph));
  GPU_CHECK(cuGraphInstantiateWithFlags(&exec, graph, 0));
  return exec;
}

template <class Call>
double per_call(int times, Call call) {
  const double all = ns_each(1, [&] {
    for (int i = 0; i < times; ++i) call();
    GPU_CHECK(cuCtxSynchronize());
  });
  return all / times;
}

// The measured program: a process of its own.
int measured() {
  Gpu gpu;
  const CUfunction empty = gpu.kernel(0);
  const CUstream stream = Gpu::stream();
  const CUgraphExec graph = graph_of(gpu, empty, stream);
  const auto launch = [&] { gpu.launch(empty, stream); };
  const auto launch_graph = [&] { GPU_CHECK(cuGraphLaunch(graph, stream)); };
  per_call(kLaunches / 10, launch);
  per_call(kLaunches / kNodes / 10, launch_graph);
  const Timing timing{per_call(kLaunches, launch), per_call(kLaunches / kNodes, launch_graph)};
  return write(STDOUT_FILENO, &timing, sizeof timing) == sizeof timing ? 0 : 1;
}

// hook: "" for none.
bool run(const char* program, const std::string& hook, Timing& timing) {
  int out[2];
  if (pipe(out) != 0) return false;
  const pid_t pid = fork();
  if (pid == 0) {
    if (!hook.empty()) setenv("LD_PRELOAD", hook.c_str(), 1);
    dup2(out[1], STDOUT_FILENO);
    execl(program, program, "--measured", nullptr);
    _exit(127);
  }
  close(out[1]);
  const bool answered = read(out[0], &timing, sizeof timing) == sizeof timing;
  close(out[0]);
  int status = 0;
  waitpid(pid, &status, 0);
  return answered && status == 0;
}

void compare(Report& report, const char* program, const std::string& hook, int rounds) {
  SlicedDevice device;
  device.serve();
  std::vector<double> bare, launch_added, graph_bare, graph_added, lost;
  for (int round = 0; round < rounds; ++round) {
    Timing without, with;
    if (!run(program, "", without) || !run(program, hook, with))
      return report.fail("the measured program failed");
    bare.push_back(without.launch_ns);
    launch_added.push_back(with.launch_ns - without.launch_ns);
    graph_bare.push_back(without.graph_ns);
    graph_added.push_back(with.graph_ns - without.graph_ns);
    lost.push_back(100 * (1 - without.launch_ns / with.launch_ns));
  }
  if (device.processes() != rounds) report.fail("the hook was not there, or did not attach");
  const auto add = [&](const char* what, const std::vector<double>& values, const char* of,
                       const std::vector<double>& reference) {
    const Samples s = summarise(values);
    report.add(Row(what, s.p50, "ns").beside(of, summarise(reference).p50).of(s));
  };
  add("added to a launch, p50", launch_added, "the launch", bare);
  add("added to a graph's launch, p50", graph_added, "the launch", graph_bare);
  const Samples l = summarise(lost);
  report.add(Row("throughput lost by a program that only launches", l.p50, "%").of(l).at_most(0.3));
}

}  // namespace
}  // namespace sluice::bench

int main(int argc, char** argv) {
  using namespace sluice::bench;
  if (argc == 2 && std::strcmp(argv[1], "--measured") == 0) return measured();
  Report report("gpu_launch", argc, argv);
  const std::string hook = text_argument(argc, argv, "--hook");
  if (hook.empty()) {
    std::fprintf(stderr, "gpu_launch: --hook LIBRARY is missing\n");
    return 2;
  }
  compare(report, "/proc/self/exe", hook, int_argument(argc, argv, "--rounds", 10));
  return report.finish();
}
