// Contexts: primary ones, which all users of a device in a process share, and one's own; each
// thread's stack of them.
#include <algorithm>

#include "tests/emulator/device_memory.h"
#include "tests/emulator/driver.h"

using namespace sluice::emulator;

namespace {
constexpr unsigned kFlags = 0xff;

// On the device: its memory, and a client for the process's first.
CUresult take_place(MachineState& state, const Driver& driver, std::uint32_t index,
                    Context& context) {
  DeviceModel& device = state.devices[index];
  context.cost = allocate(state, index, driver.process, state.spec.context_memory);
  if (context.cost == DeviceModel::kNone) return CUDA_ERROR_OUT_OF_MEMORY;
  Process& process = state.processes[driver.process];
  std::uint32_t& client = process.client[index];
  if (client == DeviceModel::kNone)
    client = device.add_client(static_cast<std::uint32_t>(process.pid), process.sm_permille);
  if (client != DeviceModel::kNone) return CUDA_SUCCESS;
  let_go(state, driver.process, context.cost, driver.machine->memory_file());
  return CUDA_ERROR_MPS_MAX_CLIENTS_REACHED;
}

// A new context; it takes some of the device's memory. Its legacy stream comes with it.
CUresult make_context(Call& call, CUdevice device, unsigned flags, bool primary, Context** made) {
  Driver& driver = call.driver();
  const std::uint32_t index = driver.in_machine(device);
  auto context = std::make_unique<Context>();
  context->device = device;
  context->flags = flags;
  context->is_primary = primary;
  context->group = driver.groups++;
  {
    Machine::Lock lock(*driver.machine);
    CUresult result = take_place(*lock, driver, index, *context);
    if (result != CUDA_SUCCESS) {
      reap(*lock, driver.machine->memory_file());
      result = take_place(*lock, driver, index, *context);
    }
    if (result != CUDA_SUCCESS) return result;
  }
  *made = driver.contexts.add(std::move(context));
  Stream* legacy = make_stream(call, **made, StreamKind::kLegacy, CU_STREAM_DEFAULT, 0);
  if (legacy == nullptr) return CUDA_ERROR_OUT_OF_MEMORY;
  driver.legacy[*made] = legacy;
  return CUDA_SUCCESS;
}

// Returns whether it is a live context of cuCtxCreate's.
bool is_ones_own(const Context* context) {
  return context != nullptr && !context->is_primary;
}

// Ends a context and all that belongs to it; what it has queued runs on.
void destroy_context(Call& call, Context* context) {
  Driver& driver = call.driver();
  const std::uint32_t index = driver.in_machine(context->device);
  {
    Machine::Lock lock(*driver.machine);
    driver.streams.for_each([&](const Stream& stream) {
      if (stream.context == context) lock->devices[index].close_stream(stream.model);
    });
    driver.events.for_each([&](const Event& event) {
      if (event.context == context) lock->devices[index].close_event(event.model);
    });
    for (const auto& [address, range] : driver.ranges)
      if (range.context == context && range.allocation != DeviceModel::kNone)
        let_go(*lock, driver.process, range.allocation, driver.machine->memory_file());
    let_go(*lock, driver.process, context->cost, driver.machine->memory_file());
  }
  std::erase_if(driver.ranges, [&](const auto& r) { return r.second.context == context; });
  driver.streams.remove_if([&](const Stream& s) { return s.context == context; });
  driver.events.remove_if([&](const Event& e) { return e.context == context; });
  driver.functions.remove_if([&](const Function& f) { return f.module->context == context; });
  driver.modules.remove_if([&](const Module& m) { return m.context == context; });
  driver.execs.remove_if([&](const GraphExec& e) { return e.context == context; });
  driver.legacy.erase(context);
  std::erase_if(driver.per_thread, [&](const auto& s) { return s.first.first == context; });
  driver.contexts.remove(context);
}
}  // namespace

namespace sluice::emulator {

CUresult retain_primary(Call& call, CUdevice device, Context** context) {
  Driver::Primary& primary = call.driver().primaries[device];
  if (primary.uses == 0) {
    const CUresult result = make_context(call, device, primary.flags, true, &primary.context);
    if (result != CUDA_SUCCESS) return result;
  }
  ++primary.uses;
  *context = primary.context;
  return CUDA_SUCCESS;
}

void release_primary(Call& call, CUdevice device) {
  Driver::Primary& primary = call.driver().primaries[device];
  if (--primary.uses == 0) destroy_context(call, primary.context);
}

}  // namespace sluice::emulator

CUresult cuDevicePrimaryCtxRetain(CUcontext* context, CUdevice device) {
  Call call(__func__, Call::kDriver);
  if (const CUresult result = call.refused(device); result != CUDA_SUCCESS) return result;
  if (context == nullptr) return CUDA_ERROR_INVALID_VALUE;
  Context* primary = nullptr;
  const CUresult result = retain_primary(call, device, &primary);
  if (result == CUDA_SUCCESS) *context = reinterpret_cast<CUcontext>(primary);
  return result;
}

CUresult cuDevicePrimaryCtxRelease_v2(CUdevice device) {
  Call call(__func__, Call::kDriver);
  if (const CUresult result = call.refused(device); result != CUDA_SUCCESS) return result;
  if (call.driver().primaries[device].uses == 0) return CUDA_ERROR_INVALID_CONTEXT;
  release_primary(call, device);
  return CUDA_SUCCESS;
}

CUresult cuDevicePrimaryCtxReset_v2(CUdevice device) {
  Call call(__func__, Call::kDriver);
  if (const CUresult result = call.refused(device); result != CUDA_SUCCESS) return result;
  Driver::Primary& primary = call.driver().primaries[device];
  if (primary.uses > 0) destroy_context(call, primary.context);
  primary = {};
  return CUDA_SUCCESS;
}

CUresult cuDevicePrimaryCtxSetFlags_v2(CUdevice device, unsigned flags) {
  Call call(__func__, Call::kDriver);
  if (const CUresult result = call.refused(device); result != CUDA_SUCCESS) return result;
  if (flags > kFlags) return CUDA_ERROR_INVALID_VALUE;
  Driver::Primary& primary = call.driver().primaries[device];
  primary.flags = flags;
  if (primary.uses > 0) primary.context->flags = flags;
  return CUDA_SUCCESS;
}

CUresult cuDevicePrimaryCtxGetState(CUdevice device, unsigned* flags, int* active) {
  const Call call(__func__, Call::kDriver);
  if (const CUresult result = call.refused(device); result != CUDA_SUCCESS) return result;
  if (flags == nullptr || active == nullptr) return CUDA_ERROR_INVALID_VALUE;
  const Driver::Primary& primary = call.driver().primaries[device];
  *flags = primary.flags;
  *active = primary.uses > 0 ? 1 : 0;
  return CUDA_SUCCESS;
}

CUresult cuCtxCreate_v2(CUcontext* context, unsigned flags, CUdevice device) {
  Call call(__func__, Call::kDriver);
  if (const CUresult result = call.refused(device); result != CUDA_SUCCESS) return result;
  if (context == nullptr || flags > kFlags) return CUDA_ERROR_INVALID_VALUE;
  Context* made = nullptr;
  const CUresult result = make_context(call, device, flags, false, &made);
  if (result != CUDA_SUCCESS) return result;
  context_stack().push_back(made);
  *context = reinterpret_cast<CUcontext>(made);
  return CUDA_SUCCESS;
}

CUresult cuCtxDestroy_v2(CUcontext handle) {
  Call call(__func__, Call::kDriver);
  if (call.refused() != CUDA_SUCCESS) return call.refused();
  Context* context = call.driver().contexts.find(handle);
  if (!is_ones_own(context)) return CUDA_ERROR_INVALID_CONTEXT;
  auto& stack = context_stack();
  if (!stack.empty() && stack.back() == context) stack.pop_back();
  destroy_context(call, context);
  return CUDA_SUCCESS;
}

CUresult cuCtxAttach(CUcontext* handle, unsigned flags) {
  const Call call(__func__);
  if (call.refused() != CUDA_SUCCESS) return call.refused();
  if (handle == nullptr || flags != 0) return CUDA_ERROR_INVALID_VALUE;
  if (!is_ones_own(call.context())) return CUDA_ERROR_INVALID_CONTEXT;
  ++call.context()->uses;
  *handle = reinterpret_cast<CUcontext>(call.context());
  return CUDA_SUCCESS;
}

CUresult cuCtxDetach(CUcontext handle) {
  Call call(__func__, Call::kDriver);
  if (call.refused() != CUDA_SUCCESS) return call.refused();
  Context* context = call.driver().contexts.find(handle);
  auto& stack = context_stack();
  if (!is_ones_own(context) || stack.empty() || stack.back() != context)
    return CUDA_ERROR_INVALID_CONTEXT;
  if (--context->uses > 0) return CUDA_SUCCESS;
  stack.pop_back();
  destroy_context(call, context);
  return CUDA_SUCCESS;
}

CUresult cuCtxPushCurrent_v2(CUcontext handle) {
  const Call call(__func__, Call::kDriver);
  if (call.refused() != CUDA_SUCCESS) return call.refused();
  Context* context = call.driver().contexts.find(handle);
  if (context == nullptr) return CUDA_ERROR_INVALID_CONTEXT;
  context_stack().push_back(context);
  return CUDA_SUCCESS;
}

CUresult cuCtxPopCurrent_v2(CUcontext* context) {
  const Call call(__func__, Call::kDriver);
  if (call.refused() != CUDA_SUCCESS) return call.refused();
  auto& stack = context_stack();
  if (stack.empty()) return CUDA_ERROR_INVALID_CONTEXT;
  if (context != nullptr) *context = reinterpret_cast<CUcontext>(stack.back());
  stack.pop_back();
  return CUDA_SUCCESS;
}

// Replaces the context on top; null removes it.
CUresult cuCtxSetCurrent(CUcontext handle) {
  const Call call(__func__, Call::kDriver);
  if (call.refused() != CUDA_SUCCESS) return call.refused();
  Context* context = call.driver().contexts.find(handle);
  if (handle != nullptr && context == nullptr) return CUDA_ERROR_INVALID_CONTEXT;
  auto& stack = context_stack();
  if (!stack.empty()) stack.pop_back();
  if (context != nullptr) stack.push_back(context);
  return CUDA_SUCCESS;
}

CUresult cuCtxGetCurrent(CUcontext* context) {
  const Call call(__func__, Call::kDriver);
  if (call.refused() != CUDA_SUCCESS) return call.refused();
  if (context == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *context = reinterpret_cast<CUcontext>(call.context());
  return CUDA_SUCCESS;
}

CUresult cuCtxGetDevice(CUdevice* device) {
  const Call call(__func__);
  if (call.refused() != CUDA_SUCCESS) return call.refused();
  if (device == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *device = call.context()->device;
  return CUDA_SUCCESS;
}

CUresult cuCtxGetFlags(unsigned* flags) {
  const Call call(__func__);
  if (call.refused() != CUDA_SUCCESS) return call.refused();
  if (flags == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *flags = call.context()->flags;
  return CUDA_SUCCESS;
}

// A context's group is never used again.
CUresult cuCtxGetId(CUcontext handle, unsigned long long* id) {
  const Call call(__func__, Call::kDriver);
  if (call.refused() != CUDA_SUCCESS) return call.refused();
  if (id == nullptr) return CUDA_ERROR_INVALID_VALUE;
  const auto& stack = context_stack();
  const Context* context = handle != nullptr ? call.driver().contexts.find(handle)
                           : stack.empty()   ? nullptr
                                             : stack.back();
  if (context == nullptr)
    return handle != nullptr ? CUDA_ERROR_CONTEXT_IS_DESTROYED : CUDA_ERROR_INVALID_CONTEXT;
  *id = context->group + 1;
  return CUDA_SUCCESS;
}

CUresult cuCtxGetApiVersion(CUcontext handle, unsigned* version) {
  const Call call(__func__, Call::kDriver);
  if (call.refused() != CUDA_SUCCESS) return call.refused();
  if (version == nullptr) return CUDA_ERROR_INVALID_VALUE;
  if (handle != nullptr && call.driver().contexts.find(handle) == nullptr)
    return CUDA_ERROR_INVALID_CONTEXT;
  *version = 3020;
  return CUDA_SUCCESS;
}

CUresult cuCtxGetStreamPriorityRange(int* least, int* greatest) {
  const Call call(__func__);
  if (call.refused() != CUDA_SUCCESS) return call.refused();
  if (least != nullptr) *least = 0;
  if (greatest != nullptr) *greatest = -5;
  return CUDA_SUCCESS;
}
