// The driver under test: whatever libcuda.so.1 was found, called through its exported names; and
// how a check says what it found.
#pragma once

#include <string>

#include "abi/cuda_abi.h"

namespace conformance {

// Each is the address of the function of that name, by dlsym.
struct Driver {
#define SLUICE_CALL(name) decltype(&::name) name = nullptr;
#define SLUICE_CALL_AS(name, of) decltype(&::of) name = nullptr;
#include "calls.inc"
#undef SLUICE_CALL
#undef SLUICE_CALL_AS
  void* library = nullptr;
};

// Null: the library, or a function of it, is missing; that is printed.
const Driver* open_driver(const char* path);

// Prints what was promised and whether it is so.
class Report {
 public:
  void check(bool kept, const std::string& promise);
  void equal(long long got, long long wanted, const std::string& promise);
  // A result code, by its name.
  void result(CUresult got, CUresult wanted, const std::string& promise);
  int failed() const { return failed_; }
  int passed() const { return passed_; }

 private:
  int failed_ = 0, passed_ = 0;
};

// What most checks need: a device with its primary context current, and two kernels of one block:
// `spin`, which takes kSpinMs, and `brief`, which takes next to nothing.
inline constexpr double kSpinMs = 20;  // long, so that a busy host still sees it run
struct Bench {
  const Driver& cu;
  Report& report;
  CUdevice device = 0;
  CUcontext context = nullptr;
  CUmodule module = nullptr;
  CUfunction spin = nullptr, brief = nullptr, faulty = nullptr;

  CUresult launch(CUfunction function, CUstream stream, unsigned blocks = 1) const;
  CUstream stream(unsigned flags = CU_STREAM_NON_BLOCKING) const;
  CUevent event(unsigned flags = CU_EVENT_DEFAULT) const;
  double between(CUevent start, CUevent end) const;  // ms
};

void check_before_init(const Driver& cu, Report& report);
void check_symbols(const Driver& cu, Report& report);
void check_devices(const Driver& cu, Report& report);
bool make_bench(Bench& bench);
void check_contexts(const Bench& bench);
void check_streams(const Bench& bench);
void check_launches(const Bench& bench);
void check_capture(const Bench& bench);
void check_graphs(const Bench& bench);
void check_graph_memory(const Bench& bench);
void check_memory(const Bench& bench);
void check_pools(const Bench& bench);
void check_virtual_memory(const Bench& bench);
void check_fork(const Bench& bench);
void check_faults(const Bench& bench);  // the context is lost

}  // namespace conformance
