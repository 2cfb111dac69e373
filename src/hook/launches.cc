// What starts work on a device passes the gate first, on the caller's thread, and then goes to the
// driver's function of the same version and variant, unchanged.
#include "hook/blocking_streams.h"
#include "hook/launch_gate.h"

SLUICE_DRIVER(cuGraphLaunch);
SLUICE_DRIVER(cuGraphLaunch_ptsz);
SLUICE_DRIVER(cuLaunchCooperativeKernel);
SLUICE_DRIVER(cuLaunchCooperativeKernel_ptsz);
SLUICE_DRIVER(cuLaunchKernel);
SLUICE_DRIVER(cuLaunchKernel_ptsz);
SLUICE_DRIVER(cuLaunchKernelEx);
SLUICE_DRIVER(cuLaunchKernelEx_ptsz);

namespace sluice::hook {
namespace {

// Before the thread sleeps at the gate.
void drain(int device, CUstream stream) {
  const Metering m = metering(device);
  if (m.meter != nullptr && sluice_gate_holds(m.at)) m.meter->drain(m.at, m.thread, stream);
}

void pass_gate(int device, CUstream stream) {
  if (thread_gate.stretch.begun_ns == 0) begin_stretch(device);
  const sluice_thread* t = thread_gate.state;
  const bool known = t != nullptr && t->seq != nullptr;  // after a fork, there are only zeros
  if (known) drain(device, stream);
  sluice_gate_pass(&gates[device], &thread_gate.state);
}

// The fast path: the only device, the permit as this thread saw it last, the lane of its last
// launch, and leave. Nothing that a capture is told of, nothing shared is written.
template <auto is_capturing>
inline bool goes_at_once(CUstream stream, uint64_t key) {
  if (captures_open() || __atomic_load_n(&devices_seen, __ATOMIC_RELAXED) != 1) return false;
  Lane* lane = thread_gate.lane;
  return lane != nullptr && sluice_gate_open(thread_gate.state) &&
         meters[0]->passes_at_once(lane, stream_itself<is_capturing>(stream), key);
}

// The same with all its lanes and all that is known of units.
bool has_leave(Meter& meter, CUstream stream, uint64_t key) {
  const sluice_thread* t = thread_gate.state;
  if (t == nullptr) return false;
  if (thread_gate.lane == nullptr || thread_gate.lane->stream != stream)
    thread_gate.lane = meter.lane_of(__atomic_load_n(&t->owner, __ATOMIC_RELAXED), stream);
  return thread_gate.lane != nullptr && meter.passes(thread_gate.lane, key);
}

template <typename Launch>
CUresult metered(int device, const Work& work, Launch&& launch) {
  const Metering m = metering(device);
  if (m.meter == nullptr) return launch();
  Unit unit{};
  const Start start = m.meter->start(m.at, m.thread, work, &unit);
  if (start == Start::kOnLeave) return launch();
  if (start == Start::kLater) {
    if (!m.meter->make_room(m.at, m.thread, work)) sluice_gate_look(thread_gate.state);
    pass_gate(device, work.stream);
    unit = m.meter->begin(m.at, m.thread, work);
  }
  thread_gate.lane = unit.lane;
  SLUICE_STEP("launch: begun");
  const CUresult result = launch();
  SLUICE_STEP("launch: launched");
  m.meter->end(m.at, work, unit, result == CUDA_SUCCESS);
  SLUICE_STEP("launch: reported");
  return result;
}

// Every other launch: when it may run.
template <auto is_capturing, typename Launch>
CUresult gated(CUstream stream, uint64_t key, Launch&& launch) {
  if (captures<is_capturing>(stream)) return launch();
  const int device = device_of_thread();
  if (device < 0) return launch();
  stream = stream_itself<is_capturing>(stream);
  pass_gate(device, stream);
  Meter* meter = __atomic_load_n(&meters[device], __ATOMIC_ACQUIRE);
  if (meter != nullptr && has_leave(*meter, stream, key)) return launch();
  SLUICE_STEP("launch: to look");
  if (stream == CU_STREAM_PER_THREAD) see_blocking_stream();
  return metered(device, {stream, key, 0}, launch);
}

}  // namespace
}  // namespace sluice::hook

using sluice::hook::gated;
using sluice::hook::goes_at_once;
using sluice::hook::graph_key;
using sluice::hook::kernel_key;
using sluice::hook::kLegacy;
using sluice::hook::kPerThread;

// A hook for each default stream: the name, its parameters, the same as arguments, the stream, what
// it is known by.
#define SLUICE_GATED_VARIANT(name, is_capturing, parameters, arguments, stream, key)  \
  __attribute__((noinline)) static CUresult held_##name parameters {                  \
    return gated<is_capturing>(stream, key, [&] { return driver_##name arguments; }); \
  }                                                                                   \
  SLUICE_EXPORT CUresult name parameters {                                            \
    return goes_at_once<is_capturing>(stream, key) ? driver_##name arguments          \
                                                   : held_##name arguments;           \
  }
#define SLUICE_GATED(name, parameters, arguments, stream, key)            \
  SLUICE_GATED_VARIANT(name, kLegacy, parameters, arguments, stream, key) \
  SLUICE_GATED_VARIANT(name##_ptsz, kPerThread, parameters, arguments, stream, key)

extern "C" {

SLUICE_GATED(cuLaunchKernel,
             (CUfunction function, unsigned grid_x, unsigned grid_y, unsigned grid_z,
              unsigned block_x, unsigned block_y, unsigned block_z, unsigned shared_bytes,
              CUstream stream, void** parameters, void** extra),
             (function, grid_x, grid_y, grid_z, block_x, block_y, block_z, shared_bytes, stream,
              parameters, extra),
             stream, kernel_key(function, grid_x, grid_y, grid_z))

SLUICE_GATED(cuLaunchKernelEx,
             (const CUlaunchConfig* config, CUfunction function, void** parameters, void** extra),
             (config, function, parameters, extra), config != nullptr ? config->hStream : nullptr,
             config != nullptr
                 ? kernel_key(function, config->gridDimX, config->gridDimY, config->gridDimZ)
                 : kernel_key(function, 0, 0, 0))

SLUICE_GATED(cuLaunchCooperativeKernel,
             (CUfunction function, unsigned grid_x, unsigned grid_y, unsigned grid_z,
              unsigned block_x, unsigned block_y, unsigned block_z, unsigned shared_bytes,
              CUstream stream, void** parameters),
             (function, grid_x, grid_y, grid_z, block_x, block_y, block_z, shared_bytes, stream,
              parameters),
             stream, kernel_key(function, grid_x, grid_y, grid_z))

SLUICE_GATED(cuGraphLaunch, (CUgraphExec exec, CUstream stream), (exec, stream), stream,
             graph_key(exec))

}  // extern "C"
