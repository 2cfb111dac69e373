// The hooked entry points, beyond those that wire/cuda_abi.h declares under their plain names. Each
// is written once per default stream: the legacy one, and (_ptsz) the calling thread's own.
#pragma once

#include "wire/cuda_abi.h"

#define SLUICE_EXPORT __attribute__((visibility("default")))

// Arrays' shapes as they were before CUDA 3.2.
struct CudaArrayDescriptorV1 {
  unsigned Width, Height;
  CUarray_format Format;
  unsigned NumChannels;
};
struct CudaArray3dDescriptorV1 {
  unsigned Width, Height, Depth;
  CUarray_format Format;
  unsigned NumChannels;
  unsigned Flags;
};

extern "C" {
CUresult cuArrayCreate(CUarray* array, const CudaArrayDescriptorV1* shape);
CUresult cuArray3DCreate(CUarray* array, const CudaArray3dDescriptorV1* shape);
CUresult cuCtxDestroy(CUcontext context);
CUresult cuDevicePrimaryCtxRelease(CUdevice device);
CUresult cuDevicePrimaryCtxReset(CUdevice device);
CUresult cuDeviceTotalMem(unsigned* total, CUdevice device);
CUresult cuMemAlloc(unsigned* pointer, unsigned bytes);
CUresult cuMemAllocPitch(unsigned* pointer, unsigned* pitch, unsigned width, unsigned height,
                         unsigned element);
CUresult cuMemFree(unsigned pointer);
CUresult cuMemGetInfo(unsigned* available, unsigned* total);
CUresult cuMemRetainAllocationHandle(CUmemGenericAllocationHandle* handle, void* address);
CUresult cuStreamBeginCapture(CUstream stream);
CUresult cuStreamBeginCaptureToGraph(CUstream stream, CUgraph graph,
                                     const CUgraphNode* dependencies, const CUgraphEdgeData* edges,
                                     size_t count, CUstreamCaptureMode mode);

SLUICE_CUDA_VARIANT(cuGraphLaunch, _ptsz);
SLUICE_CUDA_VARIANT(cuLaunchCooperativeKernel, _ptsz);
SLUICE_CUDA_VARIANT(cuLaunchKernel, _ptsz);
SLUICE_CUDA_VARIANT(cuLaunchKernelEx, _ptsz);
SLUICE_CUDA_VARIANT(cuMemAllocAsync, _ptsz);
SLUICE_CUDA_VARIANT(cuMemAllocFromPoolAsync, _ptsz);
SLUICE_CUDA_VARIANT(cuMemFreeAsync, _ptsz);
SLUICE_CUDA_VARIANT(cuStreamBeginCapture, _ptsz);
SLUICE_CUDA_VARIANT(cuStreamBeginCaptureToGraph, _ptsz);
SLUICE_CUDA_VARIANT(cuStreamBeginCapture_v2, _ptsz);
SLUICE_CUDA_VARIANT(cuStreamEndCapture, _ptsz);
SLUICE_CUDA_VARIANT(cuStreamIsCapturing, _ptsz);
}
