// An unmodified CUDA program that works in iterations, like a model server that always has a
// request: four kernels, a read of a number, a wait. From SIGUSR1 to SIGUSR2 the same work takes it
// much longer.
#include <signal.h>
#include <unistd.h>

#include "tests/support/cuda_program.h"

using namespace sluice;

namespace {

volatile sig_atomic_t slow = 0;

}  // namespace

int main() {
  signal(SIGUSR1, [](int) { slow = 1; });
  signal(SIGUSR2, [](int) { slow = 0; });
  CUfunction kernel = function(load_module("kernel work ns=2000000\n"), "work");
  CUstream stream = new_stream(CU_STREAM_NON_BLOCKING);
  CUdeviceptr number = 0;
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
