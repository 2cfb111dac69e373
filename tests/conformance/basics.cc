// Before and at the start: initialisation, names of functions, devices, contexts.
#include <dlfcn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdint>
#include <cstring>

#include "driver.h"

namespace conformance {
namespace {
// That function, of the library that was asked or of one that it stands before.
bool is_function(const Driver& cu, const void* address, const char* symbol) {
  Dl_info info{};
  if (address == dlsym(cu.library, symbol)) return true;
  return dladdr(address, &info) != 0 && info.dli_sname != nullptr &&
         std::strcmp(info.dli_sname, symbol) == 0;
}
}  // namespace

void check_initialisation(const Bench& bench) {
  const Driver& cu = bench.cu;
  const Report& report = bench.report;
  int count = 0;
  report.result(cu.cuDeviceGetCount(&count), CUDA_ERROR_NOT_INITIALIZED,
                "nothing works before cuInit");
  report.result(cu.cuInit(1), CUDA_ERROR_INVALID_VALUE, "cuInit takes no flags");
  report.result(cu.cuInit(0), CUDA_SUCCESS, "cuInit");
  report.result(cu.cuInit(0), CUDA_SUCCESS, "cuInit a second time");
}

void check_symbols(const Bench& bench) {
  const Driver& cu = bench.cu;
  const Report& report = bench.report;
  struct Query {
    const char* name;
    int version;
    std::uint64_t flags;
    const char* symbol;  // whose address it gives; null: none
    CUdriverProcAddressQueryResult found;
  };
  cu.cuInit(0);
  const Query queries[] = {
      {"cuLaunchKernel", 12000, 0, "cuLaunchKernel", CU_GET_PROC_ADDRESS_SUCCESS},
      {"cuLaunchKernel", 12000, CU_GET_PROC_ADDRESS_LEGACY_STREAM, "cuLaunchKernel",
       CU_GET_PROC_ADDRESS_SUCCESS},
      {"cuLaunchKernel", 12000, CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM,
       "cuLaunchKernel_ptsz", CU_GET_PROC_ADDRESS_SUCCESS},
      {"cuMemAlloc", 12000, CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM, "cuMemAlloc_v2",
       CU_GET_PROC_ADDRESS_SUCCESS},
      {"cuMemAlloc", 3020, 0, "cuMemAlloc_v2", CU_GET_PROC_ADDRESS_SUCCESS},
      {"cuMemAlloc", 3010, 0, "cuMemAlloc", CU_GET_PROC_ADDRESS_SUCCESS},
      {"cuGetProcAddress", 11030, 0, "cuGetProcAddress", CU_GET_PROC_ADDRESS_SUCCESS},
      {"cuGetProcAddress", 12000, 0, "cuGetProcAddress_v2", CU_GET_PROC_ADDRESS_SUCCESS},
      {"cuLaunchKernelEx", 11050, 0, nullptr, CU_GET_PROC_ADDRESS_VERSION_NOT_SUFFICIENT},
      {"cuGraphLaunch", 9020, 0, nullptr, CU_GET_PROC_ADDRESS_VERSION_NOT_SUFFICIENT},
      {"cuNoSuchFunction", 12000, 0, nullptr, CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND},
      {"cuMemAlloc_v2", 12000, 0, nullptr, CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND},
      {"", 0, 0, nullptr, CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND},
  };
  for (const Query& query : queries) {
    void* function = &function;
    CUdriverProcAddressQueryResult found = -1;
    const CUresult result =
        cu.cuGetProcAddress_v2(query.name, &function, query.version, query.flags, &found);
    const std::string what = "cuGetProcAddress(\"" + std::string(query.name) + "\", " +
                             std::to_string(query.version) + ", " + std::to_string(query.flags) +
                             ")";
    report.result(result, CUDA_SUCCESS, what);
    if (query.symbol != nullptr)
      report.check(is_function(cu, function, query.symbol), what + " is " + query.symbol);
    else
      report.check(function == nullptr, what + " is null");
    report.equal(found, query.found, what + " says why");
  }
  void* function = nullptr;
  report.result(cu.cuGetProcAddress_v2("cuInit", &function, 12000, 0, nullptr), CUDA_SUCCESS,
                "cuGetProcAddress need not say why");
  report.result(cu.cuGetProcAddress("cuInit", &function, 11030, 0), CUDA_SUCCESS,
                "the first cuGetProcAddress has four arguments");
  function = &function;
  const CUresult missing = cu.cuGetProcAddress("cuNoSuchFunction", &function, 11030, 0);
  report.check(missing != CUDA_SUCCESS || function == nullptr,
               "it has no address for an unknown function either");
}

void check_devices(const Bench& bench) {
  const Driver& cu = bench.cu;
  const Report& report = bench.report;
  int count = 0, version = 0, value = 0;
  cu.cuInit(0);
  report.result(cu.cuDriverGetVersion(&version), CUDA_SUCCESS, "cuDriverGetVersion");
  report.check(version >= 12000, "the driver is of CUDA 12 or later");
  report.result(cu.cuDeviceGetCount(&count), CUDA_SUCCESS, "cuDeviceGetCount");
  report.check(count > 0, "there is a device");
  CUdevice device = -1;
  report.result(cu.cuDeviceGet(&device, count), CUDA_ERROR_INVALID_DEVICE, "but not one more");
  report.result(cu.cuDeviceGet(&device, 0), CUDA_SUCCESS, "cuDeviceGet");
  report.result(cu.cuDeviceGetAttribute(&value, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, device),
                CUDA_SUCCESS, "cuDeviceGetAttribute");
  report.check(value > 0, "it has SMs");
  std::size_t bytes = 0;
  report.result(cu.cuDeviceTotalMem_v2(&bytes, device), CUDA_SUCCESS, "cuDeviceTotalMem");
  report.check(bytes > 0, "it has memory");
  CUuuid first{}, second{}, none{};
  report.result(cu.cuDeviceGetUuid_v2(&first, device), CUDA_SUCCESS, "cuDeviceGetUuid");
  cu.cuDeviceGetUuid_v2(&second, device);
  report.check(std::memcmp(&first, &second, sizeof first) == 0 &&
                   std::memcmp(&first, &none, sizeof first) != 0,
               "its UUID is its own");
  const char* name = nullptr;
  report.result(cu.cuGetErrorName(CUDA_ERROR_OUT_OF_MEMORY, &name), CUDA_SUCCESS, "cuGetErrorName");
  report.check(name != nullptr && std::strcmp(name, "CUDA_ERROR_OUT_OF_MEMORY") == 0,
               "errors have their names");
  report.result(cu.cuGetErrorName(static_cast<CUresult>(12345), &name), CUDA_ERROR_INVALID_VALUE,
                "a number that is no error has none");
}

// What becomes of a destroyed context is read from the thread's current one: its own handle may not
// be passed to the driver any more.
void check_attachments(const Bench& bench) {
  const Driver& cu = bench.cu;
  const Report& report = bench.report;
  CUcontext own = nullptr, again = nullptr;
  unsigned long long id = 0;
  report.result(cu.cuCtxCreate_v2(&own, 0, bench.device), CUDA_SUCCESS, "an own context is made");
  report.result(cu.cuCtxAttach(&again, 0), CUDA_SUCCESS, "a context is attached to once more");
  report.check(again == own, "it is the same");
  report.result(cu.cuCtxDetach(own), CUDA_SUCCESS, "and detached from once");
  cu.cuCtxGetCurrent(&again);
  report.check(again == own, "it is still current");
  report.result(cu.cuCtxGetId(nullptr, &id), CUDA_SUCCESS, "and still there");
  report.result(cu.cuCtxDetach(own), CUDA_SUCCESS, "detached from for the last time");
  cu.cuCtxGetCurrent(&again);
  report.check(again == bench.context, "it is gone, and the one below it is current");
}

void check_contexts(const Bench& bench) {
  const Driver& cu = bench.cu;
  const Report& report = bench.report;
  CUcontext again = nullptr, popped = nullptr, own = nullptr, current = nullptr;
  report.result(cu.cuDevicePrimaryCtxRetain(&again, bench.device), CUDA_SUCCESS,
                "the primary context is retained again");
  report.check(again == bench.context, "it is the same");
  report.result(cu.cuDevicePrimaryCtxRelease_v2(bench.device), CUDA_SUCCESS, "and released once");
  unsigned flags = 0;
  int active = 0;
  cu.cuDevicePrimaryCtxGetState(bench.device, &flags, &active);
  report.equal(active, 1, "it is still active");
  report.result(cu.cuCtxPopCurrent_v2(&popped), CUDA_SUCCESS, "the current context is popped");
  report.check(popped == bench.context, "it was the primary one");
  CUdeviceptr pointer = 0;
  report.result(cu.cuMemAlloc_v2(&pointer, 1), CUDA_ERROR_INVALID_CONTEXT,
                "without a context there is no memory");
  report.result(cu.cuCtxCreate_v2(&own, 0, bench.device), CUDA_SUCCESS, "an own context is made");
  cu.cuCtxGetCurrent(&current);
  report.check(current == own, "it is current at once");
  report.result(cu.cuCtxDestroy_v2(own), CUDA_SUCCESS, "it is destroyed");
  cu.cuCtxGetCurrent(&current);
  report.check(current == nullptr, "and is not current any more");
  report.result(cu.cuCtxSetCurrent(bench.context), CUDA_SUCCESS, "the primary one is set");
}

void check_fork(const Bench& bench) {
  const pid_t child = fork();
  if (child == 0) {
    CUdeviceptr pointer = 0;
    const bool refused = bench.cu.cuInit(0) == CUDA_ERROR_NOT_INITIALIZED &&
                         bench.cu.cuMemAlloc_v2(&pointer, 1) == CUDA_ERROR_NOT_INITIALIZED;
    _exit(refused ? 0 : 1);
  }
  int status = -1;
  waitpid(child, &status, 0);
  bench.report.equal(status, 0, "the child of a process that called cuInit is refused");
}

void check_faults(const Bench& bench) {
  const Driver& cu = bench.cu;
  const Report& report = bench.report;
  report.result(bench.launch(bench.faulty, nullptr), CUDA_SUCCESS, "a faulty kernel is launched");
  const CUresult error = cu.cuCtxSynchronize();
  report.check(error >= CUDA_ERROR_ILLEGAL_ADDRESS && error < CUDA_ERROR_NOT_PERMITTED,
               "its error comes when it is waited for");
  CUdeviceptr pointer = 0;
  report.result(cu.cuMemAlloc_v2(&pointer, 1), error, "and stays: for memory");
  report.result(bench.launch(bench.brief, nullptr), error, "and for launches");
  report.result(cu.cuCtxSynchronize(), error, "and for waiting");
}

}  // namespace conformance
