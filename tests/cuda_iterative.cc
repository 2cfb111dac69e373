// A CUDA program that knows nothing of Sluice and works in iterations, as a model server that
// always has a request: four kernels, a look at a number, a wait. From SIGUSR1 to SIGUSR2 the same
// work takes it much longer.
#include <signal.h>
#include <unistd.h>

#include "wire/cuda_abi.h"

namespace {

volatile sig_atomic_t slow = 0;

void need(CUresult result) {
  if (result != CUDA_SUCCESS) __builtin_trap();
}

}  // namespace

int main() {
  signal(SIGUSR1, [](int) { slow = 1; });
  signal(SIGUSR2, [](int) { slow = 0; });
  CUcontext context = nullptr;
  CUmodule module = nullptr;
  CUfunction kernel = nullptr;
  CUstream stream = nullptr;
  CUdeviceptr number = 0;
  need(cuInit(0));
  need(cuDevicePrimaryCtxRetain(&context, 0));
  need(cuCtxSetCurrent(context));
  need(cuModuleLoadData(&module, "kernel work ns=2000000\n"));
  need(cuModuleGetFunction(&kernel, module, "work"));
  need(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
  need(cuMemAlloc_v2(&number, 4));
  for (;;) {
    for (int i = 0; i < 4; ++i) {
      if (slow) usleep(20'000);
      need(cuLaunchKernel(kernel, 66, 1, 1, 1, 1, 1, 0, stream, nullptr, nullptr));
    }
    need(cuStreamSynchronize(stream));
    unsigned seen = 0;
    need(cuMemcpyDtoH_v2(&seen, number, 4));
  }
}
