// The driver under bench_hook and bench_memory: its launches do nothing but count,
// its allocations hand out numbers, so that what stands before them is all there is to measure. Its
// device has done what was launched at once: events are reached when they are recorded. Slow
// launches come with slow events.
#include <time.h>

#include "abi/cuda_abi.h"

struct CUevent_st {
  bool timed;
  timespec when;
};

namespace {

__thread unsigned long launched;  // by this thread
__thread bool slow;               // it launches slowly

void keep_the_processor(int turns) {
  for (int i = 0; i < turns; ++i) asm volatile("");
}

}  // namespace

extern "C" {

unsigned long hook_driver_launched() {
  return launched;
}

CUresult cuDeviceGetCount(int* count) {
  *count = 1;
  return CUDA_SUCCESS;
}

CUresult cuCtxGetCurrent(CUcontext* context) {
  *context = reinterpret_cast<CUcontext>(1);
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

// In the proportions of an H200: a launch 3.7 us, an event 0.8, a look at one 0.3.
CUresult cuLaunchKernelEx(const CUlaunchConfig*, CUfunction, void**, void**) {
  slow = true;
  keep_the_processor(13'000);
  ++launched;
  return CUDA_SUCCESS;
}

CUresult cuEventCreate(CUevent* event, unsigned flags) {
  *event = new CUevent_st{(flags & CU_EVENT_DISABLE_TIMING) == 0, {}};
  return CUDA_SUCCESS;
}

CUresult cuEventDestroy_v2(CUevent event) {
  delete event;
  return CUDA_SUCCESS;
}

CUresult cuEventRecord(CUevent event, CUstream) {
  if (slow) keep_the_processor(2800);
  if (event->timed) clock_gettime(CLOCK_MONOTONIC, &event->when);
  return CUDA_SUCCESS;
}

CUresult cuEventQuery(CUevent) {
  if (slow) keep_the_processor(1000);
  return CUDA_SUCCESS;
}

CUresult cuEventElapsedTime(float* milliseconds, CUevent begin, CUevent end) {
  if (slow) keep_the_processor(500);
  *milliseconds =
      static_cast<float>(1e3 * difftime(end->when.tv_sec, begin->when.tv_sec) +
                         1e-6 * static_cast<double>(end->when.tv_nsec - begin->when.tv_nsec));
  return CUDA_SUCCESS;
}

}  // extern "C"
