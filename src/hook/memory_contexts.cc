// What was allocated in a context is freed with it, and so are the events that the meter has there.
#include "hook/green_streams.h"
#include "hook/launch_gate.h"
#include "hook/memory.h"
#include "hook/memory_pools.h"
#include "hook/primary_context.h"

SLUICE_DRIVER(cuCtxDestroy);
SLUICE_DRIVER(cuCtxDestroy_v2);
SLUICE_DRIVER(cuDevicePrimaryCtxRelease);
SLUICE_DRIVER(cuDevicePrimaryCtxReset);
SLUICE_DRIVER(cuDevicePrimaryCtxReset_v2);

namespace sluice::hook {
namespace {

// What ran in it until it was gone is charged when it is.
template <auto destroy>
CUresult destroy_context(CUcontext context) {
  leave_context_alone(context);
  const CUresult result = destroy(context);
  if (result != CUDA_SUCCESS) {
    use_context_again(context);
    return result;
  }
  forget_context(context);
  give_back_charges_of(context);
  return result;
}

// The last release ends it, a reset does so at once; which it is, is seen afterwards.
template <auto end>
CUresult end_primary(CUdevice device) {
  end_green_streams(device);
  const bool known = account_of(device) != nullptr || is_metered(device);
  const CUcontext context = known ? primary_of(device) : nullptr;
  if (context == nullptr) return end(device);
  leave_context_alone(context);
  const CUresult result = end(device);
  if (result != CUDA_SUCCESS || primary_is_active(device)) {
    use_context_again(context);
    return result;
  }
  forget_context(context);
  give_back_charges_of(context);
  settle_pools();
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
