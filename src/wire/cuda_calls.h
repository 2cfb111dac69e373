// The CUDA driver as the model store uses it, found at run time: nothing is needed to build or to
// start. Whoever owns a CudaCalls may call it from any thread; the library stays loaded.
#pragma once

#include "base/result.h"
#include "wire/cuda_abi.h"

namespace sluice::wire {

#define SLUICE_CUDA_CALLS(X)       \
  X(cuInit)                        \
  X(cuGetErrorName)                \
  X(cuDeviceGet)                   \
  X(cuDeviceGetCount)              \
  X(cuDeviceGetUuid_v2)            \
  X(cuDeviceGetAttribute)          \
  X(cuDevicePrimaryCtxRetain)      \
  X(cuCtxGetDevice)                \
  X(cuCtxSetCurrent)               \
  X(cuMemAlloc_v2)                 \
  X(cuMemFree_v2)                  \
  X(cuIpcGetMemHandle)             \
  X(cuIpcOpenMemHandle_v2)         \
  X(cuIpcCloseMemHandle)           \
  X(cuMemGetAllocationGranularity) \
  X(cuMemCreate)                   \
  X(cuMemRelease)                  \
  X(cuMemAddressReserve)           \
  X(cuMemAddressFree)              \
  X(cuMemMap)                      \
  X(cuMemUnmap)                    \
  X(cuMemSetAccess)                \
  X(cuMemExportToShareableHandle)  \
  X(cuMemImportFromShareableHandle)

struct CudaCalls {
#define SLUICE_CUDA_CALL(name) decltype(&::name) name = nullptr;
  SLUICE_CUDA_CALLS(SLUICE_CUDA_CALL)
#undef SLUICE_CUDA_CALL

  // What a call's failure is to callers; no memory is kExhausted.
  Result<void> check(CUresult result, const char* what) const;
  // kNotFound: this process does not see it.
  Result<CUdevice> device_of(const uint8_t (&uuid)[16]) const;
};

// Initialised. kUnavailable: there is no driver, or it is too old, or sees no device.
Result<CudaCalls> open_cuda();

}  // namespace sluice::wire
