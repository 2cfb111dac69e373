#include "hook/launch_gate.h"

#include "hook/blocking_streams.h"
#include "wire/permit_socket.h"

SLUICE_DRIVER(cuCtxGetDevice);
SLUICE_DRIVER(cuDeviceGetCount);
SLUICE_DRIVER(cuDeviceGetUuid);

namespace sluice::hook {

sluice_gate gates[kDevices];
int devices_seen;
__thread ThreadGate thread_gate;
Meter* meters[kDevices];
bool blocking_stream_seen;

namespace {

// Which of the slice's devices it is. A program may show itself some of them alone, in another
// order. A device that the slice does not name goes by its own number.
uint32_t number_in_slice(CUdevice device) {
  const char* list = getenv("SLUICE_VISIBLE_DEVICES");  // NOLINT(concurrency-mt-unsafe)
  CUuuid id;
  if (list == nullptr || driver_cuDeviceGetUuid(&id, device) != CUDA_SUCCESS)
    return static_cast<uint32_t>(device);
  char uuid[kUuidSize];
  write_uuid(id.bytes, uuid);
  const int named = number_of(list, uuid);
  return static_cast<uint32_t>(named >= 0 ? named : device);
}

// Threads that come first at once all write the same.
int see_devices() {
  int count = 0;
  if (driver_cuDeviceGetCount(&count) != CUDA_SUCCESS || count <= 0) return 0;
  const char* path = sluice_permit_socket();
  for (int device = 0; device < kDevices; ++device) {
    const uint32_t number = device < count ? number_in_slice(device) : 0;
    __atomic_store_n(&gates[device].device, number, __ATOMIC_RELAXED);
    __atomic_store_n(&gates[device].socket_path, path, __ATOMIC_RELAXED);
    __atomic_store_n(&gates[device].metered, 1u, __ATOMIC_RELAXED);
  }
  __atomic_store_n(&devices_seen, count, __ATOMIC_RELEASE);
  return count;
}

// A fork's child finds it empty.
Meter* meter_of(int device) {
  Meter* known = __atomic_load_n(&meters[device], __ATOMIC_ACQUIRE);
  if (known != nullptr) return known;
  auto* made = static_cast<Meter*>(sluice_wiped_memory(sizeof(Meter)));
  if (made == nullptr) return nullptr;
  if (__atomic_compare_exchange_n(&meters[device], &known, made, false, __ATOMIC_ACQ_REL,
                                  __ATOMIC_ACQUIRE))
    return made;
  munmap(made, sizeof(Meter));
  return known;
}

}  // namespace

Metering metering(int device) {
  if (device < 0) return {};
  const sluice_process* process = __atomic_load_n(&gates[device].process, __ATOMIC_ACQUIRE);
  if (process == nullptr) return {};
  sluice_attachment* at = __atomic_load_n(&process->current, __ATOMIC_ACQUIRE);
  if (at == nullptr) return {};
  const sluice_thread* state = thread_gate.device == device ? thread_gate.state : nullptr;
  uint32_t thread = state != nullptr ? __atomic_load_n(&state->owner, __ATOMIC_RELAXED) : 0;
  if (thread == 0) thread = static_cast<uint32_t>(syscall(SYS_gettid));
  return {meter_of(device), at, thread};
}

void begin_stretch(int device) {
  if (__atomic_load_n(&iterations_marked, __ATOMIC_RELAXED)) return;
  const sluice_attachment* at = sluice_attached(&gates[device]);
  if (at == nullptr || sluice_slo(at) == 0) return;
  const Metering m = metering(device);
  if (m.meter != nullptr) thread_gate.stretch = m.meter->begin_stretch(m.at, m.thread);
}

// The thread's next launch has to look, and begins another.
void end_stretch() {
  const Metering m = metering(thread_gate.device);
  const bool marked = __atomic_load_n(&iterations_marked, __ATOMIC_RELAXED);  // since it began
  if (m.meter != nullptr && !marked) m.meter->end_stretch(m.at, m.thread, thread_gate.stretch);
  thread_gate.stretch = {};
  sluice_gate_look(thread_gate.state);
}

namespace {
template <typename F>
void for_each_meter(F&& visit) {
  for (int device = 0; device < kDevices; ++device)
    if (is_metered(device)) visit(*meters[device]);
}
}  // namespace

void leave_context_alone(CUcontext context) {
  for_each_meter([&](Meter& meter) { meter.leave_alone(context); });
}
void use_context_again(CUcontext context) {
  for_each_meter([&](Meter& meter) { meter.use_again(context); });
}
void forget_context(CUcontext context) {
  for_each_meter([&](Meter& meter) { meter.forget_context(context); });
}
void forget_graph(CUgraphExec exec) {
  for_each_meter([&](Meter& meter) { meter.forget_unit(graph_key(exec)); });
}
void hold_up(CUstream stream) {
  for_each_meter([&](Meter& meter) { meter.hold_up(stream); });
}
void doubt_kernels() {
  for_each_meter([](Meter& meter) { meter.doubt_kernels(); });
}

void change_device(int device) {
  sluice_thread* state = device >= 0 ? sluice_own_thread(&gates[device]) : nullptr;
  thread_gate = {device, state, nullptr, {}};
}

int device_of_context() {
  int count = __atomic_load_n(&devices_seen, __ATOMIC_ACQUIRE);
  if (count == 0) count = see_devices();
  if (count <= 1) return count - 1;
  CUdevice device = 0;
  return driver_cuCtxGetDevice(&device) == CUDA_SUCCESS && device < kDevices ? device : -1;
}

}  // namespace sluice::hook
