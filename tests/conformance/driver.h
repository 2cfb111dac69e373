// The driver under test: whatever libcuda.so.1 was found, called through its exported names; and
// how a check says what it found.
#pragma once

#include <atomic>
#include <string>

#include "abi/cuda_abi.h"

namespace conformance {

// How far the checks have come. Each group of them runs in a child process, which shares this with
// its parent: a group that crashes leaves its counts and its last call.
struct Progress {
  int kept = 0, broken = 0;
  std::atomic<const char*> last_call{"none"};
};
extern Progress& progress;

// A function of the driver's. A call of one that the driver lacks returns CUDA_ERROR_NOT_FOUND.
template <typename Function>
struct Call;
template <typename... Arguments>
struct Call<CUresult (*)(Arguments...)> {
  const char* name;
  CUresult (*address)(Arguments...) = nullptr;

  CUresult operator()(Arguments... arguments) const {
    progress.last_call = name;
    return address != nullptr ? address(arguments...) : CUDA_ERROR_NOT_FOUND;
  }
};

// Each has the address of the function of that name, by dlsym.
struct Driver {
#define SLUICE_CALL(name) SLUICE_CALL_AS(name, name)
#define SLUICE_CALL_AS(name, of) Call<decltype(&::of)> name{#name};
#include "calls.inc"
#undef SLUICE_CALL
#undef SLUICE_CALL_AS
  void* library = nullptr;
};

// Returns nullptr if the library is missing. That is printed, and each function that it lacks.
const Driver* open_driver(const char* path);

// Prints what was promised and whether it is so, and counts it.
class Report {
 public:
  void check(bool kept, const std::string& promise) const;
  void equal(long long got, long long wanted, const std::string& promise) const;
  // A result code, by its name.
  void result(CUresult got, CUresult wanted, const std::string& promise) const;
};

// What most checks need: a device with its primary context current, and two kernels of one block:
// `spin`, which takes kSpinMs, and `brief`, which takes next to nothing.
inline constexpr double kSpinMs = 20;  // long, so that a busy host still sees it run
struct Bench {
  const Driver& cu;
  Report report;
  CUdevice device = 0;
  CUcontext context = nullptr;
  CUmodule module = nullptr;
  CUfunction spin = nullptr, brief = nullptr, faulty = nullptr;

  CUresult launch(CUfunction function, CUstream stream, unsigned blocks = 1) const;
  CUstream stream(unsigned flags = CU_STREAM_NON_BLOCKING) const;
  CUevent event(unsigned flags = CU_EVENT_DEFAULT) const;
  double between(CUevent start, CUevent end) const;  // ms
};

// Initialises the driver and loads the module into the primary context. Returns false, and prints
// the call that failed, if that cannot be done.
bool make_bench(Bench& bench);

// The groups. The first three take a driver without a context; the first of them initialises it.
void check_initialisation(const Bench& bench);
void check_symbols(const Bench& bench);
void check_devices(const Bench& bench);
void check_contexts(const Bench& bench);
void check_attachments(const Bench& bench);
void check_default_streams(const Bench& bench);
void check_events(const Bench& bench);
void check_other_contexts(const Bench& bench);
void check_host_functions(const Bench& bench);
void check_streams(const Bench& bench);
void check_launches(const Bench& bench);
void check_capture(const Bench& bench);
void check_what_breaks_a_capture(const Bench& bench);
void check_host_nodes(const Bench& bench);
void check_graphs(const Bench& bench);
void check_captured_memory(const Bench& bench);
void check_what_outlives_a_launch(const Bench& bench);
void check_what_graphs_refuse(const Bench& bench);
void check_memory(const Bench& bench);
void check_managed_memory(const Bench& bench);
void check_shared_memory(const Bench& bench);
void check_pools(const Bench& bench);
void check_virtual_memory(const Bench& bench);
void check_fork(const Bench& bench);
void check_faults(const Bench& bench);  // the context is lost

}  // namespace conformance
