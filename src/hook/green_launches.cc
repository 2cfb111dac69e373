// A kernel runs in a twin of its stream and counts as run in the stream: the twin waits for what
// the stream has before it, the stream for the kernel. So whatever else is done with the stream,
// and all that waits for it, default streams and events included, keeps its order, and a change of
// SMs needs none of its own. That costs two records and two waits a launch.
//
// What cannot be launched so is launched as the program asked, and so is what captures: what a
// graph launches keeps to no SMs.
#include "hook/green_launches.h"

#include <stdlib.h>

#include "hook/green_streams.h"
#include "hook/launch_gate.h"

SLUICE_DRIVER(cuEventRecord);
SLUICE_DRIVER(cuStreamSynchronize);
SLUICE_DRIVER(cuStreamWaitEvent);

namespace sluice::hook {
namespace {

// Its twin on the SMs that the page says now. Null: it has none, and runs on all.
Twin* twin_now(CUstream stream) {
  const Metering m = metering(device_of_thread());
  if (m.meter == nullptr) return nullptr;
  GreenStreams* streams = green_streams(thread_gate.device);
  if (streams == nullptr) return nullptr;
  const SmRange range = __atomic_load_n(&m.at->permit->sm_range, __ATOMIC_RELAXED);
  Twin* twin = streams->take(thread_gate.device, stream, range);
  const auto refusal = static_cast<uint32_t>(streams->refusal());
  if (__atomic_load_n(&m.at->usage->sm_refusal, __ATOMIC_RELAXED) != refusal)
    __atomic_store_n(&m.at->usage->sm_refusal, refusal, __ATOMIC_RELAXED);
  return twin;
}

bool behind(CUstream stream, CUevent event, CUstream other) {
  return driver_cuEventRecord(event, other) == CUDA_SUCCESS &&
         driver_cuStreamWaitEvent(stream, event, 0) == CUDA_SUCCESS;
}

// False: nothing was launched.
template <typename Launch>
bool launch_beside(CUstream stream, const Twin& twin, Launch&& launch) {
  if (!behind(twin.stream, twin.fork, stream)) return false;
  if (launch(twin.stream) != CUDA_SUCCESS) return false;
  // The kernel is on its way: where the stream cannot wait for it, we do.
  if (!behind(stream, twin.join, twin.stream)) driver_cuStreamSynchronize(twin.stream);
  return true;
}

template <auto is_capturing, typename Launch>
CUresult confined(CUstream stream, Launch&& launch) {
  if (captures<is_capturing>(stream)) return launch(stream);
  const CUstream itself = stream_itself<is_capturing>(stream);
  Twin* twin = twin_now(itself);
  if (twin == nullptr) return launch(stream);
  const bool done = launch_beside(itself, *twin, launch);
  GreenStreams::give_back(twin);
  return done ? CUDA_SUCCESS : launch(stream);
}

// A driver's function, and what stands in its place: the name, its parameters, its stream, and the
// call of `real` with another, `twin`.
#define SLUICE_CONFINED(name, is_capturing, parameters, stream, call)                \
  decltype(&::name) real_##name;                                                     \
  CUresult confined_##name parameters {                                              \
    const auto real = __atomic_load_n(&real_##name, __ATOMIC_RELAXED);               \
    return confined<is_capturing>(stream, [&](CUstream twin) -> CUresult { call; }); \
  }
#define SLUICE_CONFINED_BOTH(name, parameters, stream, call) \
  SLUICE_CONFINED(name, kLegacy, parameters, stream, call)   \
  SLUICE_CONFINED(name##_ptsz, kPerThread, parameters, stream, call)

SLUICE_CONFINED_BOTH(cuLaunchKernel,
                     (CUfunction function, unsigned grid_x, unsigned grid_y, unsigned grid_z,
                      unsigned block_x, unsigned block_y, unsigned block_z, unsigned shared_bytes,
                      CUstream stream, void** parameters, void** extra),
                     stream,
                     return real(function, grid_x, grid_y, grid_z, block_x, block_y, block_z,
                                 shared_bytes, twin, parameters, extra))

SLUICE_CONFINED_BOTH(cuLaunchCooperativeKernel,
                     (CUfunction function, unsigned grid_x, unsigned grid_y, unsigned grid_z,
                      unsigned block_x, unsigned block_y, unsigned block_z, unsigned shared_bytes,
                      CUstream stream, void** parameters),
                     stream,
                     return real(function, grid_x, grid_y, grid_z, block_x, block_y, block_z,
                                 shared_bytes, twin, parameters))

SLUICE_CONFINED_BOTH(cuLaunchKernelEx,
                     (const CUlaunchConfig* config, CUfunction function, void** parameters,
                      void** extra),
                     config != nullptr ? config->hStream : nullptr,
                     if (config == nullptr) return real(config, function, parameters, extra);
                     CUlaunchConfig there = *config; there.hStream = twin;
                     return real(&there, function, parameters, extra))

bool asked_for() {
  const char* word = getenv("SLUICE_LIVE_SM");  // NOLINT(concurrency-mt-unsafe)
  return word != nullptr && word[0] == '1';
}

template <typename F>
void* in_place(F& real, F confined, void* driver_function) {
  __atomic_store_n(&real, reinterpret_cast<F>(driver_function), __ATOMIC_RELAXED);
  return reinterpret_cast<void*>(confined);
}

}  // namespace

void* launched_by(Entry entry, void* driver_function) {
  if (driver_function == nullptr) return nullptr;
  switch (entry) {
#define SLUICE_IN_PLACE(name) \
  case Entry::name:           \
    return asked_for() ? in_place(real_##name, &confined_##name, driver_function) : driver_function
    SLUICE_IN_PLACE(cuLaunchKernel);
    SLUICE_IN_PLACE(cuLaunchKernel_ptsz);
    SLUICE_IN_PLACE(cuLaunchCooperativeKernel);
    SLUICE_IN_PLACE(cuLaunchCooperativeKernel_ptsz);
    SLUICE_IN_PLACE(cuLaunchKernelEx);
    SLUICE_IN_PLACE(cuLaunchKernelEx_ptsz);
    default:
      return driver_function;
  }
}

}  // namespace sluice::hook
