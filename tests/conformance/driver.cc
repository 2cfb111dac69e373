#include "driver.h"

#include <dlfcn.h>
#include <sys/mman.h>

#include <cstdio>
#include <new>

namespace conformance {

Progress& progress = *new (mmap(nullptr, sizeof(Progress), PROT_READ | PROT_WRITE,
                                MAP_SHARED | MAP_ANONYMOUS, -1, 0)) Progress;

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

template <typename Function>
void find(void* library, Call<Function>& call) {
  call.address = reinterpret_cast<Function>(dlsym(library, call.name));
  if (call.address == nullptr)
    Report().check(false, "the driver exports " + std::string(call.name));
}
}  // namespace

const Driver* open_driver(const char* path) {
  static Driver driver;
  driver.library = dlopen(path, RTLD_NOW);
  if (driver.library == nullptr) {
    std::printf("FAIL  %s\n", dlerror());
    return nullptr;
  }
#define SLUICE_CALL(name) find(driver.library, driver.name);
#define SLUICE_CALL_AS(name, of) SLUICE_CALL(name)
#include "calls.inc"
  return &driver;
}

void Report::check(bool kept, const std::string& promise) const {
  std::printf("%s  %s\n", kept ? "ok  " : "FAIL", promise.c_str());
  ++(kept ? progress.kept : progress.broken);
}
void Report::equal(long long got, long long wanted, const std::string& promise) const {
  check(got == wanted, got == wanted ? promise
                                     : promise + ": " + std::to_string(got) + " instead of " +
                                           std::to_string(wanted));
}
void Report::result(CUresult got, CUresult wanted, const std::string& promise) const {
  check(got == wanted,
        got == wanted ? promise : promise + ": " + name_of(got) + " instead of " + name_of(wanted));
}

bool make_bench(Bench& bench) {
  const Driver& cu = bench.cu;
  CUresult result = CUDA_SUCCESS;
  const auto done = [&](CUresult now) { return (result = now) == CUDA_SUCCESS; };
  const bool made = done(cu.cuInit(0)) && done(cu.cuDeviceGet(&bench.device, 0)) &&
                    done(cu.cuDevicePrimaryCtxRetain(&bench.context, bench.device)) &&
                    done(cu.cuCtxSetCurrent(bench.context)) &&
                    done(cu.cuModuleLoadData(&bench.module, kModule)) &&
                    done(cu.cuModuleGetFunction(&bench.spin, bench.module, "spin")) &&
                    done(cu.cuModuleGetFunction(&bench.brief, bench.module, "brief")) &&
                    done(cu.cuModuleGetFunction(&bench.faulty, bench.module, "faulty"));
  if (!made) bench.report.result(result, CUDA_SUCCESS, progress.last_call.load());
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
