// Calls that make a stream wait: for a function of the program's, for an event, for a word in
// memory. They start nothing on the device, so they are neither gated nor charged; but what stands
// behind them waits, and that time is not the device's (meter.h).
#include "hook/launch_gate.h"

SLUICE_DRIVER(cuCtxWaitEvent);
SLUICE_DRIVER(cuEventQuery);
SLUICE_DRIVER(cuGreenCtxWaitEvent);
SLUICE_DRIVER(cuStreamWaitEvent);
SLUICE_DRIVER(cuStreamWaitEvent_ptsz);

namespace sluice::hook {
namespace {

template <auto is_capturing, typename Call>
CUresult holds_up(CUstream stream, Call&& call) {
  if (captures<is_capturing>(stream)) return call();
  const CUresult result = call();
  if (result == CUDA_SUCCESS) hold_up(stream_itself<is_capturing>(stream));
  return result;
}

// Nobody waits for an event that was reached before.
template <auto is_capturing, typename Call>
CUresult waits_for(CUstream stream, CUevent event, Call&& call) {
  if (!captures_open() && driver_cuEventQuery(event) == CUDA_SUCCESS) return call();
  return holds_up<is_capturing>(stream, call);
}

// Any stream of a context.
template <typename Call>
CUresult holds_up_all(Call&& call) {
  const CUresult result = call();
  if (result == CUDA_SUCCESS) hold_up(nullptr);
  return result;
}

}  // namespace
}  // namespace sluice::hook

using sluice::hook::holds_up;
using sluice::hook::holds_up_all;
using sluice::hook::kLegacy;
using sluice::hook::kPerThread;
using sluice::hook::waits_for;

#define SLUICE_HOLDS_UP_VARIANT(name, is_capturing, parameters, arguments)          \
  SLUICE_DRIVER(name);                                                              \
  SLUICE_EXPORT CUresult name parameters {                                          \
    return holds_up<is_capturing>(stream, [&] { return driver_##name arguments; }); \
  }
// The parameters name the stream `stream`.
#define SLUICE_HOLDS_UP(name, parameters, arguments)            \
  SLUICE_HOLDS_UP_VARIANT(name, kLegacy, parameters, arguments) \
  SLUICE_HOLDS_UP_VARIANT(name##_ptsz, kPerThread, parameters, arguments)

extern "C" {

SLUICE_HOLDS_UP(cuLaunchHostFunc, (CUstream stream, CUhostFn function, void* user),
                (stream, function, user))
SLUICE_HOLDS_UP(cuStreamAddCallback,
                (CUstream stream, CUstreamCallback function, void* user, unsigned flags),
                (stream, function, user, flags))
SLUICE_EXPORT CUresult cuStreamWaitEvent(CUstream stream, CUevent event, unsigned flags) {
  return waits_for<kLegacy>(stream, event,
                            [&] { return driver_cuStreamWaitEvent(stream, event, flags); });
}
SLUICE_EXPORT CUresult cuStreamWaitEvent_ptsz(CUstream stream, CUevent event, unsigned flags) {
  return waits_for<kPerThread>(stream, event,
                               [&] { return driver_cuStreamWaitEvent_ptsz(stream, event, flags); });
}
SLUICE_HOLDS_UP(cuStreamWaitValue32,
                (CUstream stream, CUdeviceptr word, unsigned value, unsigned flags),
                (stream, word, value, flags))
SLUICE_HOLDS_UP(cuStreamWaitValue32_v2,
                (CUstream stream, CUdeviceptr word, unsigned value, unsigned flags),
                (stream, word, value, flags))
SLUICE_HOLDS_UP(cuStreamWaitValue64,
                (CUstream stream, CUdeviceptr word, uint64_t value, unsigned flags),
                (stream, word, value, flags))
SLUICE_HOLDS_UP(cuStreamWaitValue64_v2,
                (CUstream stream, CUdeviceptr word, uint64_t value, unsigned flags),
                (stream, word, value, flags))
SLUICE_HOLDS_UP(cuStreamBatchMemOp,
                (CUstream stream, unsigned count, void* operations, unsigned flags),
                (stream, count, operations, flags))
SLUICE_HOLDS_UP(cuStreamBatchMemOp_v2,
                (CUstream stream, unsigned count, void* operations, unsigned flags),
                (stream, count, operations, flags))
SLUICE_HOLDS_UP(cuWaitExternalSemaphoresAsync,
                (const void* semaphores, const void* values, unsigned count, CUstream stream),
                (semaphores, values, count, stream))

SLUICE_EXPORT CUresult cuCtxWaitEvent(CUcontext context, CUevent event) {
  return holds_up_all([&] { return driver_cuCtxWaitEvent(context, event); });
}
SLUICE_EXPORT CUresult cuGreenCtxWaitEvent(CUgreenCtx context, CUevent event) {
  return holds_up_all([&] { return driver_cuGreenCtxWaitEvent(context, event); });
}

}  // extern "C"
