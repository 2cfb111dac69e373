// conformance [LIBRARY]: asks a CUDA driver (libcuda.so.1, unless named) what Sluice relies on, one
// promise a line. Ends with 0 if all are kept, 1 if not, 2 if there is no such driver. The same
// program asks the emulated driver, a hook before it, and a real one: where they differ, the
// emulated one is wrong.
#include <cstdio>
#include <cstdlib>
#include <filesystem>

#include "driver.h"

using namespace conformance;

namespace {
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
}  // namespace

int main(int count, char** arguments) {
  const Scratch scratch;
  const Driver* cu = open_driver(count > 1 ? arguments[1] : "libcuda.so.1");
  if (cu == nullptr) return 2;
  Report report;
  check_before_init(*cu, report);
  check_symbols(*cu, report);
  check_devices(*cu, report);
  Bench bench{*cu, report};
  if (make_bench(bench)) {
    check_contexts(bench);
    check_streams(bench);
    check_launches(bench);
    check_capture(bench);
    check_graphs(bench);
    check_graph_memory(bench);
    check_memory(bench);
    check_pools(bench);
    check_virtual_memory(bench);
    check_fork(bench);
    check_faults(bench);
  }
  std::printf("%d kept, %d broken\n", report.passed(), report.failed());
  return report.failed() == 0 ? 0 : 1;
}
