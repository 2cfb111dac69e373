// The hooked entry points, beyond those that abi/cuda_abi.h declares under their plain names. Each
// is written once per default stream: the legacy one, and (_ptsz) the calling thread's own.
#pragma once

#include "abi/cuda_abi.h"

#define SLUICE_EXPORT __attribute__((visibility("default")))

extern "C" {
// Refused, whatever the parameters (refused.cc).
CUresult cuArray3DCreate();
CUresult cuArrayCreate();
CUresult cuLaunch();
CUresult cuLaunchCooperativeKernelMultiDevice();
CUresult cuLaunchGrid();
CUresult cuLaunchGridAsync();
CUresult cuMemAlloc();
CUresult cuMemAllocPitch();
CUresult cuMemFree();

CUresult cuCtxDestroy(CUcontext context);
CUresult cuDevicePrimaryCtxRelease(CUdevice device);
CUresult cuDevicePrimaryCtxReset(CUdevice device);
CUresult cuDeviceTotalMem(unsigned* total, CUdevice device);
CUresult cuLibraryUnload(CUlibrary library);
CUresult cuMemGetInfo(unsigned* available, unsigned* total);
CUresult cuMemRetainAllocationHandle(CUmemGenericAllocationHandle* handle, void* address);
CUresult cuCtxSynchronize_v2(CUcontext context);
CUresult cuMemcpy2DUnaligned_v2(const CUDA_MEMCPY2D* copy);
CUresult cuMemcpyPeer(CUdeviceptr to, CUcontext there, CUdeviceptr from, CUcontext here,
                      size_t bytes);
CUresult cuMemcpyPeerAsync(CUdeviceptr to, CUcontext there, CUdeviceptr from, CUcontext here,
                           size_t bytes, CUstream stream);
CUresult cuMemsetD2D8_v2(CUdeviceptr to, size_t pitch, unsigned char value, size_t width,
                         size_t height);
CUresult cuMemsetD2D16_v2(CUdeviceptr to, size_t pitch, unsigned short value, size_t width,
                          size_t height);
CUresult cuMemsetD2D32_v2(CUdeviceptr to, size_t pitch, unsigned value, size_t width,
                          size_t height);
CUresult cuMemsetD2D8Async(CUdeviceptr to, size_t pitch, unsigned char value, size_t width,
                           size_t height, CUstream stream);
CUresult cuMemsetD2D16Async(CUdeviceptr to, size_t pitch, unsigned short value, size_t width,
                            size_t height, CUstream stream);
CUresult cuMemsetD2D32Async(CUdeviceptr to, size_t pitch, unsigned value, size_t width,
                            size_t height, CUstream stream);
CUresult cuCtxWaitEvent(CUcontext context, CUevent event);
CUresult cuGreenCtxWaitEvent(CUgreenCtx context, CUevent event);
CUresult cuStreamBatchMemOp(CUstream stream, unsigned count, void* operations, unsigned flags);
CUresult cuStreamWaitValue32(CUstream stream, CUdeviceptr word, unsigned value, unsigned flags);
CUresult cuStreamWaitValue64(CUstream stream, CUdeviceptr word, uint64_t value, unsigned flags);
CUresult cuWaitExternalSemaphoresAsync(const void* semaphores, const void* values, unsigned count,
                                       CUstream stream);
CUresult cuStreamBeginCapture(CUstream stream);
CUresult cuStreamBeginCaptureToGraph(CUstream stream, CUgraph graph,
                                     const CUgraphNode* dependencies, const CUgraphEdgeData* edges,
                                     size_t count, CUstreamCaptureMode mode);

SLUICE_CUDA_VARIANT(cuGraphInstantiateWithParams, _ptsz);
SLUICE_CUDA_VARIANT(cuGraphLaunch, _ptsz);
SLUICE_CUDA_VARIANT(cuLaunchCooperativeKernel, _ptsz);
SLUICE_CUDA_VARIANT(cuLaunchHostFunc, _ptsz);
SLUICE_CUDA_VARIANT(cuLaunchKernel, _ptsz);
SLUICE_CUDA_VARIANT(cuLaunchKernelEx, _ptsz);
SLUICE_CUDA_VARIANT(cuMemAllocAsync, _ptsz);
SLUICE_CUDA_VARIANT(cuMemAllocFromPoolAsync, _ptsz);
SLUICE_CUDA_VARIANT(cuMemFreeAsync, _ptsz);
SLUICE_CUDA_VARIANT(cuMemcpy2DAsync_v2, _ptsz);
SLUICE_CUDA_VARIANT(cuMemcpy2DUnaligned_v2, _ptds);
SLUICE_CUDA_VARIANT(cuMemcpy2D_v2, _ptds);
SLUICE_CUDA_VARIANT(cuMemcpy3DAsync_v2, _ptsz);
SLUICE_CUDA_VARIANT(cuMemcpy3D_v2, _ptds);
SLUICE_CUDA_VARIANT(cuMemcpyAsync, _ptsz);
SLUICE_CUDA_VARIANT(cuMemcpyDtoDAsync_v2, _ptsz);
SLUICE_CUDA_VARIANT(cuMemcpyDtoD_v2, _ptds);
SLUICE_CUDA_VARIANT(cuMemcpyDtoHAsync_v2, _ptsz);
SLUICE_CUDA_VARIANT(cuMemcpyDtoH_v2, _ptds);
SLUICE_CUDA_VARIANT(cuMemcpyHtoDAsync_v2, _ptsz);
SLUICE_CUDA_VARIANT(cuMemcpyHtoD_v2, _ptds);
SLUICE_CUDA_VARIANT(cuMemcpyPeerAsync, _ptsz);
SLUICE_CUDA_VARIANT(cuMemcpyPeer, _ptds);
SLUICE_CUDA_VARIANT(cuMemcpy, _ptds);
SLUICE_CUDA_VARIANT(cuMemsetD16Async, _ptsz);
SLUICE_CUDA_VARIANT(cuMemsetD16_v2, _ptds);
SLUICE_CUDA_VARIANT(cuMemsetD2D16Async, _ptsz);
SLUICE_CUDA_VARIANT(cuMemsetD2D16_v2, _ptds);
SLUICE_CUDA_VARIANT(cuMemsetD2D32Async, _ptsz);
SLUICE_CUDA_VARIANT(cuMemsetD2D32_v2, _ptds);
SLUICE_CUDA_VARIANT(cuMemsetD2D8Async, _ptsz);
SLUICE_CUDA_VARIANT(cuMemsetD2D8_v2, _ptds);
SLUICE_CUDA_VARIANT(cuMemsetD32Async, _ptsz);
SLUICE_CUDA_VARIANT(cuMemsetD32_v2, _ptds);
SLUICE_CUDA_VARIANT(cuMemsetD8Async, _ptsz);
SLUICE_CUDA_VARIANT(cuMemsetD8_v2, _ptds);
SLUICE_CUDA_VARIANT(cuStreamAddCallback, _ptsz);
SLUICE_CUDA_VARIANT(cuStreamBatchMemOp, _ptsz);
SLUICE_CUDA_VARIANT(cuStreamBatchMemOp, _v2);
SLUICE_CUDA_VARIANT(cuStreamBatchMemOp, _v2_ptsz);
SLUICE_CUDA_VARIANT(cuStreamBeginCapture, _ptsz);
SLUICE_CUDA_VARIANT(cuStreamBeginCaptureToGraph, _ptsz);
SLUICE_CUDA_VARIANT(cuStreamBeginCapture_v2, _ptsz);
SLUICE_CUDA_VARIANT(cuStreamEndCapture, _ptsz);
SLUICE_CUDA_VARIANT(cuStreamIsCapturing, _ptsz);
SLUICE_CUDA_VARIANT(cuStreamSynchronize, _ptsz);
SLUICE_CUDA_VARIANT(cuStreamWaitEvent, _ptsz);
SLUICE_CUDA_VARIANT(cuStreamWaitValue32, _ptsz);
SLUICE_CUDA_VARIANT(cuStreamWaitValue32, _v2);
SLUICE_CUDA_VARIANT(cuStreamWaitValue32, _v2_ptsz);
SLUICE_CUDA_VARIANT(cuStreamWaitValue64, _ptsz);
SLUICE_CUDA_VARIANT(cuStreamWaitValue64, _v2);
SLUICE_CUDA_VARIANT(cuStreamWaitValue64, _v2_ptsz);
SLUICE_CUDA_VARIANT(cuWaitExternalSemaphoresAsync, _ptsz);
}
