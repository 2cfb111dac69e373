// Calls that wait for the device: afterwards what was waited for is finished, the thread's stretch
// of work (iterations.h) has ended, and a thread with nothing in flight has no work, so that its
// permit may go to somebody else meanwhile.
#include "hook/launch_gate.h"

SLUICE_DRIVER(cuCtxSynchronize);
SLUICE_DRIVER(cuCtxSynchronize_v2);
SLUICE_DRIVER(cuEventQuery);
SLUICE_DRIVER(cuEventSynchronize);
SLUICE_DRIVER(cuStreamSynchronize);
SLUICE_DRIVER(cuStreamSynchronize_ptsz);

namespace sluice::hook {
namespace {

// Of a stream, or (null) of all of the context.
template <typename Wait>
CUresult waited_for(CUstream stream, Wait&& wait) {
  const Metering m = metering(device_of_thread());
  if (m.meter == nullptr) return wait();
  const uint64_t begun = sluice_clock(CLOCK_MONOTONIC);
  const CUresult result = [&] {
    const AwaitingDevice awaiting(m);
    return wait();
  }();
  SLUICE_STEP("wait: over");
  if (result == CUDA_SUCCESS) has_waited(m.meter->waited(m.at, m.thread, stream, begun));
  return result;
}

}  // namespace
}  // namespace sluice::hook

using sluice::hook::waited_for;

extern "C" {

SLUICE_EXPORT CUresult cuCtxSynchronize() {
  return waited_for(nullptr, [] { return driver_cuCtxSynchronize(); });
}
SLUICE_EXPORT CUresult cuCtxSynchronize_v2(CUcontext context) {
  using namespace sluice::hook;
  const uint64_t begun = sluice_clock(CLOCK_MONOTONIC);
  const Metering m = metering(device_of_thread());
  if (m.meter == nullptr) return driver_cuCtxSynchronize_v2(context);
  const CUresult result = [&] {
    const AwaitingDevice awaiting(m);
    return driver_cuCtxSynchronize_v2(context);
  }();
  if (m.meter != nullptr && result == CUDA_SUCCESS)
    has_waited(m.meter->looked(m.at, m.thread, begun));
  return result;
}

SLUICE_EXPORT CUresult cuStreamSynchronize(CUstream stream) {
  using namespace sluice::hook;
  return waited_for(stream_itself<driver_cuStreamIsCapturing>(stream),
                    [&] { return driver_cuStreamSynchronize(stream); });
}
SLUICE_EXPORT CUresult cuStreamSynchronize_ptsz(CUstream stream) {
  using namespace sluice::hook;
  return waited_for(stream_itself<driver_cuStreamIsCapturing_ptsz>(stream),
                    [&] { return driver_cuStreamSynchronize_ptsz(stream); });
}

// What it stands behind is not known: whoever really waited for it looks.
SLUICE_EXPORT CUresult cuEventSynchronize(CUevent event) {
  using namespace sluice::hook;
  const Metering m = metering(device_of_thread());
  if (m.meter == nullptr || captures_open()) return driver_cuEventSynchronize(event);
  const bool reached = driver_cuEventQuery(event) != CUDA_ERROR_NOT_READY;
  const uint64_t begun = sluice_clock(CLOCK_MONOTONIC);
  if (!reached) idle_if(m.meter->looked(m.at, m.thread, begun));
  const CUresult result = [&] {
    const AwaitingDevice awaiting(m);
    return driver_cuEventSynchronize(event);
  }();
  if (result == CUDA_SUCCESS) has_waited(!reached && m.meter->looked(m.at, m.thread, begun));
  return result;
}

}  // extern "C"
