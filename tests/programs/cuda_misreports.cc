// A misreporting CUDA program: passes a gate of its own as the hook does, reports that it submits
// nothing, and keeps the device busy a fifth of the time.
#include <unistd.h>

#include <cstdlib>

#include "tests/support/cuda_program.h"
#include "wire/permit.h"

using namespace sluice;

namespace {

constexpr useconds_t kRestUs = 4000;

void report_nothing(const sluice_gate& gate) {
  const sluice_attachment* at = __atomic_load_n(&gate.process->current, __ATOMIC_ACQUIRE);
  if (at == nullptr) return;
  const sluice_device_report nothing{.submitted_ns = 0,
                                     .finished_ns = 0,
                                     .host_ns = 0,
                                     .longest_ns = 0,
                                     .seen_ns = sluice_clock(CLOCK_MONOTONIC),
                                     .stalled = 0};
  sluice_device_report_write(at->usage, &nothing);
}

}  // namespace

int main() {
  static sluice_gate gate = {.socket_path = getenv("SLUICE_PERMIT_SOCKET"), .metered = 1};
  sluice_thread* mine = nullptr;
  CUfunction work = function(load_module("kernel work ns=1000000"), "work");
  for (;;) {
    sluice_gate_pass(&gate, &mine);
    sluice_gate_idle_begin(mine);
    report_nothing(gate);
    need(cuLaunchKernel(work, 132, 1, 1, 1, 1, 1, 0, nullptr, nullptr, nullptr));
    need(cuStreamSynchronize(nullptr));
    usleep(kRestUs);
  }
}
