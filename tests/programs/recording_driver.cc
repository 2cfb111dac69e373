// The test driver's entry points that answer.
#include "tests/support/recording_driver.h"

#include <dlfcn.h>
#include <string.h>

#include "hook/hooks.h"

extern "C" sluice::hook::RecordingDriver recording_driver;

namespace {

// A driver may answer with another address than the exported one.
CUresult unexported_graph_launch(CUgraphExec exec, CUstream stream) {
  return cuGraphLaunch(exec, stream);
}

// Returns the newest variant that `version` knows; empty if none.
const char* variant(const char* symbol, int version, uint64_t flags) {
  struct Variant {
    const char *name, *symbol;
    int version;
    uint64_t flags;
  };
  static constexpr Variant kVariants[] = {
#define SLUICE_PASSED(name) {#name, #name, 0, 0},
#define SLUICE_HOOKED(name, symbol, version, flags) {#name, symbol, version, flags},
#include "hook/entry_points.inc"
  };
  const Variant* best = nullptr;
  for (const Variant& v : kVariants)
    if (strcmp(v.symbol, symbol) == 0 && v.flags == flags && v.version <= version &&
        (best == nullptr || v.version > best->version))
      best = &v;
  return best != nullptr ? best->name : "";
}

}  // namespace

extern "C" {

CUresult cuGetProcAddress_v2(const char* symbol, void** function, int version, uint64_t flags,
                             CUdriverProcAddressQueryResult* found) {
  if (found != nullptr) *found = 1;
  if (function == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *function = nullptr;
  Dl_info self;
  if (dladdr(&recording_driver, &self) == 0) return CUDA_ERROR_UNKNOWN;
  void* library = dlopen(self.dli_fname, RTLD_NOW | RTLD_NOLOAD);
  *function = dlsym(library, variant(symbol, version, flags));
  dlclose(library);
  if (*function == nullptr) return CUDA_SUCCESS;
  if (*function == reinterpret_cast<void*>(cuGraphLaunch))
    *function = reinterpret_cast<void*>(unexported_graph_launch);
  if (found != nullptr) *found = 0;
  return CUDA_SUCCESS;
}

// By its name: a preloaded hook is what it finds.
CUresult cuGetProcAddress(const char* symbol, void** function, int version, uint64_t flags) {
  return cuGetProcAddress_v2(symbol, function, version, flags, nullptr);
}

CUresult cuDeviceGetCount(int* count) {
  *count = recording_driver.devices;
  return CUDA_SUCCESS;
}

CUresult cuCtxGetDevice(CUdevice* device) {
  *device = recording_driver.current;
  return CUDA_SUCCESS;
}

CUresult cuStreamIsCapturing(CUstream stream, CUstreamCaptureStatus* status) {
  const bool active = stream != nullptr && stream == recording_driver.capturing;
  *status = active ? CU_STREAM_CAPTURE_STATUS_ACTIVE : CU_STREAM_CAPTURE_STATUS_NONE;
  return CUDA_SUCCESS;
}
CUresult cuStreamIsCapturing_ptsz(CUstream stream, CUstreamCaptureStatus* status) {
  return cuStreamIsCapturing(stream, status);
}

CUresult cuStreamBeginCapture_v2(CUstream stream, CUstreamCaptureMode) {
  recording_driver.capturing = stream;
  return CUDA_SUCCESS;
}

CUresult cuStreamEndCapture(CUstream stream, CUgraph*) {
  if (recording_driver.capturing != stream) return CUDA_ERROR_ILLEGAL_STATE;
  recording_driver.capturing = nullptr;
  return CUDA_SUCCESS;
}

}  // extern "C"
