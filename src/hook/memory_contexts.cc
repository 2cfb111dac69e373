// What was allocated in a context is freed with it, and so are the events that the meter has there:
// they are left alone while a call may be ending it.
#include "hook/launch_gate.h"
#include "hook/memory.h"

SLUICE_DRIVER(cuCtxDestroy);
SLUICE_DRIVER(cuCtxDestroy_v2);
SLUICE_DRIVER(cuCtxDetach);
SLUICE_DRIVER(cuCtxFromGreenCtx);
SLUICE_DRIVER(cuDevicePrimaryCtxGetState);
SLUICE_DRIVER(cuDevicePrimaryCtxRelease);
SLUICE_DRIVER(cuDevicePrimaryCtxRelease_v2);
SLUICE_DRIVER(cuDevicePrimaryCtxReset);
SLUICE_DRIVER(cuDevicePrimaryCtxReset_v2);
SLUICE_DRIVER(cuDevicePrimaryCtxRetain);
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

bool primary_is_active(CUdevice device) {
  unsigned flags = 0;
  int active = 0;
  return driver_cuDevicePrimaryCtxGetState(device, &flags, &active) == CUDA_SUCCESS && active != 0;
}

// Returns nullptr if the device has no primary context now. (CUDA's runtime makes it without us.)
CUcontext primary_of(CUdevice device) {
  CUcontext context = nullptr;
  if (!primary_is_active(device) ||
      driver_cuDevicePrimaryCtxRetain(&context, device) != CUDA_SUCCESS)
    return nullptr;
  driver_cuDevicePrimaryCtxRelease_v2(device);
  return context;
}

// The last release ends it, a reset does so at once; which it is, is seen afterwards.
template <auto end>
CUresult end_primary(CUdevice device) {
  const bool known = account_of(device) != nullptr || is_metered(device);
  const CUcontext context = known ? primary_of(device) : nullptr;
  if (context == nullptr) return end(device);
  leave_context_alone(context);
  const CUresult result = end(device);
  const bool gone = result == CUDA_SUCCESS && !primary_is_active(device);
  settle(context, gone);
  if (gone) settle_pools();
  return result;
}

// What was allocated in it belongs to the device's primary context, and stays charged.
CUresult destroy_green(CUgreenCtx green) {
  CUcontext context = nullptr;
  if (driver_cuCtxFromGreenCtx(&context, green) != CUDA_SUCCESS)
    return driver_cuGreenCtxDestroy(green);
  leave_context_alone(context);
  const CUresult result = driver_cuGreenCtxDestroy(green);
  result == CUDA_SUCCESS ? forget_context(context) : use_context_again(context);
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

// Only a thread's current context can be detached from, and the end of one takes it off the
// thread's stack. The handle itself may not be passed to the driver any more.
SLUICE_EXPORT CUresult cuCtxDetach(CUcontext context) {
  leave_context_alone(context);
  const CUresult result = driver_cuCtxDetach(context);
  settle(context, result == CUDA_SUCCESS && current_context() != context);
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
