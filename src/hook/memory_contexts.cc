// What was allocated in a context is freed with it, and so are the events that the meter has there:
// they are left alone while a call may be ending it.
#include "hook/green_streams.h"
#include "hook/launch_gate.h"
#include "hook/memory.h"
#include "hook/memory_pools.h"
#include "hook/primary_context.h"

SLUICE_DRIVER(cuCtxDestroy);
SLUICE_DRIVER(cuCtxDestroy_v2);
SLUICE_DRIVER(cuCtxDetach);
SLUICE_DRIVER(cuCtxFromGreenCtx);
SLUICE_DRIVER(cuCtxGetDevice);
SLUICE_DRIVER(cuCtxGetId);
SLUICE_DRIVER(cuCtxPopCurrent_v2);
SLUICE_DRIVER(cuCtxPushCurrent_v2);
SLUICE_DRIVER(cuDevicePrimaryCtxRelease);
SLUICE_DRIVER(cuDevicePrimaryCtxReset);
SLUICE_DRIVER(cuDevicePrimaryCtxReset_v2);
SLUICE_DRIVER(cuGreenCtxDestroy);

namespace sluice::hook {
namespace {

// After a call that might have ended it. What ran in it until it was gone is charged when it is.
void settle(CUcontext context, bool gone) {
  if (!gone) return use_context_again(context);
  forget_context(context);
  give_back_charges_of(context);
}

template <auto destroy>
CUresult destroy_context(CUcontext context) {
  leave_context_alone(context);
  const CUresult result = destroy(context);
  settle(context, result == CUDA_SUCCESS);
  return result;
}

// By the driver's numbers (CUDA 12). Before them nobody can say, and what was in it stays charged.
bool is_gone(CUcontext context) {
  unsigned long long id = 0;
  const CUresult result = driver_cuCtxGetId(context, &id);
  return result != CUDA_SUCCESS && result != CUDA_ERROR_CALL_REQUIRES_NEWER_DRIVER;
}

// The last release ends it, a reset does so at once; which it is, is seen afterwards.
template <class End>
CUresult may_end_primary(CUdevice device, End end) {
  const bool known = account_of(device) != nullptr || is_metered(device);
  const CUcontext context = known ? primary_of(device) : nullptr;
  if (context == nullptr) return end();
  leave_context_alone(context);
  const CUresult result = end();
  const bool gone = result == CUDA_SUCCESS && !primary_is_active(device);
  settle(context, gone);
  if (gone) settle_pools();
  return result;
}

template <auto end>
CUresult end_primary(CUdevice device) {
  end_green_streams(device);
  return may_end_primary(device, [device] { return end(device); });
}

// Negative: it has none.
CUdevice device_of(CUcontext context) {
  CUdevice device = -1;
  if (driver_cuCtxPushCurrent_v2(context) != CUDA_SUCCESS) return device;
  if (driver_cuCtxGetDevice(&device) != CUDA_SUCCESS) device = -1;
  driver_cuCtxPopCurrent_v2(&context);
  return device;
}

// It holds its device's primary context, whose memory is what was allocated in it.
CUresult destroy_green(CUgreenCtx green) {
  CUcontext context = nullptr;
  const auto destroy = [green] { return driver_cuGreenCtxDestroy(green); };
  if (driver_cuCtxFromGreenCtx(&context, green) != CUDA_SUCCESS) return destroy();
  const CUdevice device = device_of(context);
  leave_context_alone(context);
  const CUresult result = may_end_primary(device, destroy);
  if (result != CUDA_SUCCESS) {
    use_context_again(context);
    return result;
  }
  forget_context(context);
  if (device >= 0 && !primary_is_active(device)) give_back_charges_of(context);
  return result;
}

}  // namespace
}  // namespace sluice::hook

using namespace sluice::hook;

extern "C" {

SLUICE_EXPORT CUresult cuCtxDestroy(CUcontext context) {
  return destroy_context<driver_cuCtxDestroy>(context);
}
SLUICE_EXPORT CUresult cuCtxDestroy_v2(CUcontext context) {
  return destroy_context<driver_cuCtxDestroy_v2>(context);
}

SLUICE_EXPORT CUresult cuCtxDetach(CUcontext context) {
  leave_context_alone(context);
  const CUresult result = driver_cuCtxDetach(context);
  settle(context, result == CUDA_SUCCESS && is_gone(context));
  return result;
}
SLUICE_EXPORT CUresult cuGreenCtxDestroy(CUgreenCtx green) {
  return destroy_green(green);
}

SLUICE_EXPORT CUresult cuDevicePrimaryCtxRelease(CUdevice device) {
  return end_primary<driver_cuDevicePrimaryCtxRelease>(device);
}
SLUICE_EXPORT CUresult cuDevicePrimaryCtxRelease_v2(CUdevice device) {
  return end_primary<driver_cuDevicePrimaryCtxRelease_v2>(device);
}
SLUICE_EXPORT CUresult cuDevicePrimaryCtxReset(CUdevice device) {
  return end_primary<driver_cuDevicePrimaryCtxReset>(device);
}
SLUICE_EXPORT CUresult cuDevicePrimaryCtxReset_v2(CUdevice device) {
  return end_primary<driver_cuDevicePrimaryCtxReset_v2>(device);
}

}  // extern "C"
