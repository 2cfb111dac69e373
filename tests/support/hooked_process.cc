#include "tests/support/hooked_process.h"

#include <unistd.h>

#include <cstdlib>

#include "tests/support/child.h"

namespace sluice::hook {

const char* const kHook = SLUICE_HOOK_LIBRARY;
const char* const kRecordingDriver = SLUICE_RECORDING_DRIVER;
const char* const kProbe = SLUICE_HOOK_PROBE;

std::string in_process(const std::function<std::string()>& body) {
  const auto [fault, status] = in_child([&](int out) {
    const std::string said = body();
    const auto size = static_cast<ssize_t>(said.size());
    if (write(out, said.data(), said.size()) != size) _exit(1);
  });
  return status == 0 ? fault : fault + " (ended with status " + std::to_string(status) + ")";
}

int call(void* function, const Words& w, const Reals& r) {
  using W = unsigned long;
  using R = double;
  using Widest = int (*)(W, W, W, W, W, W, W, W, W, W, W, W, W, W, R, R, R, R, R, R, R, R);
  return reinterpret_cast<Widest>(function)(w[0], w[1], w[2], w[3], w[4], w[5], w[6], w[7], w[8],
                                            w[9], w[10], w[11], w[12], w[13],  //
                                            r[0], r[1], r[2], r[3], r[4], r[5], r[6], r[7]);
}

Hooked::Hooked(const char* driver_path) {
  setenv("SLUICE_CUDA_DRIVER", driver_path, 1);
  library = dlopen(kHook, RTLD_NOW | RTLD_LOCAL);
  driver = dlopen(kRecordingDriver, RTLD_NOW | RTLD_LOCAL);
  state = static_cast<RecordingDriver*>(dlsym(driver, "recording_driver"));
}

}  // namespace sluice::hook
