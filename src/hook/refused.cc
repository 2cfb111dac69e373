// Calls that the hook refuses, so that none of them passes the gate or the limit on memory:
// launches that CUDA deprecated with its versions 4 and 11.3, and allocations of CUDA before 3.2,
// whose addresses have 32 bits. The parameters are not read.
#include "hook/hooks.h"

#define SLUICE_REFUSED(name)         \
  SLUICE_EXPORT CUresult name() {    \
    return CUDA_ERROR_NOT_SUPPORTED; \
  }

extern "C" {
SLUICE_REFUSED(cuArray3DCreate)
SLUICE_REFUSED(cuArrayCreate)
SLUICE_REFUSED(cuLaunch)
SLUICE_REFUSED(cuLaunchCooperativeKernelMultiDevice)
SLUICE_REFUSED(cuLaunchGrid)
SLUICE_REFUSED(cuLaunchGridAsync)
SLUICE_REFUSED(cuMemAlloc)
SLUICE_REFUSED(cuMemAllocPitch)
SLUICE_REFUSED(cuMemFree)
}
