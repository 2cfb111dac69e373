#include "driver.h"

#include <dlfcn.h>

#include <cstdio>

namespace conformance {
namespace {
// For a driver that compiles it, and, in the lines that begin with //@, for the emulated one.
const char* const kModule = R"(
//@ kernel spin ns=20000000
//@ kernel brief ns=1000
//@ kernel faulty ns=1000 fault=719
.version 6.3
.target sm_75
.address_size 64
.visible .entry spin()
{
  .reg .u64 %now, %end;
  .reg .pred %on;
  mov.u64 %end, %globaltimer;
  add.u64 %end, %end, 20000000;
again:
  mov.u64 %now, %globaltimer;
  setp.lt.u64 %on, %now, %end;
  @%on bra again;
  ret;
}
.visible .entry brief()
{
  ret;
}
.visible .entry faulty()
{
  trap;
  ret;
}
)";

std::string name_of(CUresult result) {
#define SLUICE_NAME(name, value) \
  if (result == name) return #name;
  SLUICE_CUDA_RESULTS(SLUICE_NAME)
  return std::to_string(result);
}

template <typename F>
bool find(void* library, const char* name, F& function) {
  function = reinterpret_cast<F>(dlsym(library, name));
  if (function == nullptr) std::printf("FAIL  the driver exports %s\n", name);
  return function != nullptr;
}
}  // namespace

const Driver* open_driver(const char* path) {
  static Driver driver;
  driver.library = dlopen(path, RTLD_NOW);
  if (driver.library == nullptr) {
    std::printf("FAIL  %s\n", dlerror());
    return nullptr;
  }
  bool whole = true;
#define SLUICE_CALL(name) whole = find(driver.library, #name, driver.name) && whole;
#define SLUICE_CALL_AS(name, of) SLUICE_CALL(name)
#include "calls.inc"
  return whole ? &driver : nullptr;
}

void Report::check(bool kept, const std::string& promise) {
  std::printf("%s  %s\n", kept ? "ok  " : "FAIL", promise.c_str());
  ++(kept ? passed_ : failed_);
}
void Report::equal(long long got, long long wanted, const std::string& promise) {
  check(got == wanted, got == wanted ? promise
                                     : promise + ": " + std::to_string(got) + " instead of " +
                                           std::to_string(wanted));
}
void Report::result(CUresult got, CUresult wanted, const std::string& promise) {
  check(got == wanted,
        got == wanted ? promise : promise + ": " + name_of(got) + " instead of " + name_of(wanted));
}

bool make_bench(Bench& bench) {
  const Driver& cu = bench.cu;
  const bool made = cu.cuDeviceGet(&bench.device, 0) == CUDA_SUCCESS &&
                    cu.cuDevicePrimaryCtxRetain(&bench.context, bench.device) == CUDA_SUCCESS &&
                    cu.cuCtxSetCurrent(bench.context) == CUDA_SUCCESS &&
                    cu.cuModuleLoadData(&bench.module, kModule) == CUDA_SUCCESS &&
                    cu.cuModuleGetFunction(&bench.spin, bench.module, "spin") == CUDA_SUCCESS &&
                    cu.cuModuleGetFunction(&bench.brief, bench.module, "brief") == CUDA_SUCCESS &&
                    cu.cuModuleGetFunction(&bench.faulty, bench.module, "faulty") == CUDA_SUCCESS;
  bench.report.check(made, "a module is loaded into the primary context");
  return made;
}

CUresult Bench::launch(CUfunction function, CUstream stream, unsigned blocks) const {
  return cu.cuLaunchKernel(function, blocks, 1, 1, 1, 1, 1, 0, stream, nullptr, nullptr);
}
CUstream Bench::stream(unsigned flags) const {
  CUstream stream = nullptr;
  report.result(cu.cuStreamCreate(&stream, flags), CUDA_SUCCESS, "a stream is made");
  return stream;
}
CUevent Bench::event(unsigned flags) const {
  CUevent event = nullptr;
  report.result(cu.cuEventCreate(&event, flags), CUDA_SUCCESS, "an event is made");
  return event;
}
double Bench::between(CUevent start, CUevent end) const {
  float milliseconds = -1;
  cu.cuEventElapsedTime(&milliseconds, start, end);
  return milliseconds;
}

}  // namespace conformance
