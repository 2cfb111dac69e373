// What starts work on a device passes the gate first, on the caller's thread, and then goes to the
// driver's function of the same version and variant, unchanged.
#include "hook/launch_gate.h"

SLUICE_DRIVER(cuCtxPopCurrent_v2);
SLUICE_DRIVER(cuCtxPushCurrent_v2);
SLUICE_DRIVER(cuGraphLaunch);
SLUICE_DRIVER(cuGraphLaunch_ptsz);
SLUICE_DRIVER(cuLaunch);
SLUICE_DRIVER(cuLaunchCooperativeKernel);
SLUICE_DRIVER(cuLaunchCooperativeKernel_ptsz);
SLUICE_DRIVER(cuLaunchCooperativeKernelMultiDevice);
SLUICE_DRIVER(cuLaunchGrid);
SLUICE_DRIVER(cuLaunchGridAsync);
SLUICE_DRIVER(cuLaunchKernel);
SLUICE_DRIVER(cuLaunchKernel_ptsz);
SLUICE_DRIVER(cuLaunchKernelEx);
SLUICE_DRIVER(cuLaunchKernelEx_ptsz);
SLUICE_DRIVER(cuStreamGetCtx);

namespace sluice::hook {
namespace {

constexpr auto kLegacy = driver_cuStreamIsCapturing;
constexpr auto kPerThread = driver_cuStreamIsCapturing_ptsz;

// One of several launches at once, each on the device of its stream.
void pass_gate_of_stream(CUstream stream) {
  CUcontext context = nullptr;
  const bool there = driver_cuStreamGetCtx(stream, &context) == CUDA_SUCCESS &&
                     driver_cuCtxPushCurrent_v2(context) == CUDA_SUCCESS;
  pass_gate<kLegacy>(stream);
  if (there) driver_cuCtxPopCurrent_v2(&context);
}

}  // namespace
}  // namespace sluice::hook

using sluice::hook::kLegacy;
using sluice::hook::kPerThread;
using sluice::hook::pass_gate;

// A hook for each default stream: the name, its parameters, the same as arguments, the stream.
#define SLUICE_GATED(name, parameters, arguments, stream) \
  SLUICE_EXPORT CUresult name parameters {                \
    pass_gate<kLegacy>(stream);                           \
    return driver_##name arguments;                       \
  }                                                       \
  SLUICE_EXPORT CUresult name##_ptsz parameters {         \
    pass_gate<kPerThread>(stream);                        \
    return driver_##name##_ptsz arguments;                \
  }

extern "C" {

SLUICE_GATED(cuLaunchKernel,
             (CUfunction function, unsigned grid_x, unsigned grid_y, unsigned grid_z,
              unsigned block_x, unsigned block_y, unsigned block_z, unsigned shared_bytes,
              CUstream stream, void** parameters, void** extra),
             (function, grid_x, grid_y, grid_z, block_x, block_y, block_z, shared_bytes, stream,
              parameters, extra),
             stream)

SLUICE_GATED(cuLaunchKernelEx,
             (const CUlaunchConfig* config, CUfunction function, void** parameters, void** extra),
             (config, function, parameters, extra), config != nullptr ? config->hStream : nullptr)

SLUICE_GATED(cuLaunchCooperativeKernel,
             (CUfunction function, unsigned grid_x, unsigned grid_y, unsigned grid_z,
              unsigned block_x, unsigned block_y, unsigned block_z, unsigned shared_bytes,
              CUstream stream, void** parameters),
             (function, grid_x, grid_y, grid_z, block_x, block_y, block_z, shared_bytes, stream,
              parameters),
             stream)

SLUICE_GATED(cuGraphLaunch, (CUgraphExec exec, CUstream stream), (exec, stream), stream)

SLUICE_EXPORT CUresult cuLaunchCooperativeKernelMultiDevice(CUDA_LAUNCH_PARAMS* launches,
                                                            unsigned count, unsigned flags) {
  for (unsigned i = 0; launches != nullptr && i < count; ++i)
    sluice::hook::pass_gate_of_stream(launches[i].hStream);
  return driver_cuLaunchCooperativeKernelMultiDevice(launches, count, flags);
}

SLUICE_EXPORT CUresult cuLaunch(CUfunction function) {
  pass_gate<kLegacy>(nullptr);
  return driver_cuLaunch(function);
}

SLUICE_EXPORT CUresult cuLaunchGrid(CUfunction function, int width, int height) {
  pass_gate<kLegacy>(nullptr);
  return driver_cuLaunchGrid(function, width, height);
}

SLUICE_EXPORT CUresult cuLaunchGridAsync(CUfunction function, int width, int height,
                                         CUstream stream) {
  pass_gate<kLegacy>(stream);
  return driver_cuLaunchGridAsync(function, width, height, stream);
}

}  // extern "C"
