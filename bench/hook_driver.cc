// The driver under bench_hook and bench_memory: its launches do nothing but count, its allocations
// hand out numbers, so that what stands before them is all there is to measure.
#include "wire/cuda_abi.h"

extern "C" {

static __thread unsigned long launched;  // by this thread

unsigned long hook_driver_launched() {
  return launched;
}

CUresult cuDeviceGetCount(int* count) {
  *count = 1;
  return CUDA_SUCCESS;
}

CUresult cuLaunchKernel(CUfunction, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned,
                        unsigned, CUstream, void**, void**) {
  ++launched;
  return CUDA_SUCCESS;
}

CUresult cuMemAlloc_v2(CUdeviceptr* pointer, size_t bytes) {
  static CUdeviceptr next = 1u << 21;
  *pointer = next;
  next += bytes;
  return CUDA_SUCCESS;
}

CUresult cuMemFree_v2(CUdeviceptr) {
  return CUDA_SUCCESS;
}

// Keeps the processor for about as long as the fastest of real launches, which take 1.3 to 3 µs.
CUresult cuLaunchKernelEx(const CUlaunchConfig*, CUfunction, void**, void**) {
  for (int i = 0; i < 5000; ++i) asm volatile("");
  ++launched;
  return CUDA_SUCCESS;
}

}  // extern "C"
