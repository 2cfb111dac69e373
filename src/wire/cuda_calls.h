// The CUDA driver as the model store uses it, found at run time: nothing is needed to build or to
// start. Any thread may call an open CudaCalls; the library stays loaded.
#pragma once

#include "abi/cuda_abi.h"
#include "base/result.h"

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

  // Returns the result as an error for callers; missing memory is kExhausted.
  Result<void> check(CUresult result, const char* what) const;
  // Returns kNotFound if this process does not see it.
  Result<CUdevice> device_of(const uint8_t (&uuid)[16]) const;
};

// Returns the initialised driver; kUnavailable if there is none, it is too old, or it sees no
// device.
Result<CudaCalls> open_cuda();

}  // namespace sluice::wire
