// What the meter has to hear of besides work and graphs: modules that go, whose addresses others
// may get, and streams that come, for a blocking one is not seen later.
#include "hook/blocking_streams.h"
#include "hook/launch_gate.h"

SLUICE_DRIVER(cuLibraryUnload);
SLUICE_DRIVER(cuModuleUnload);
SLUICE_DRIVER(cuStreamCreate);
SLUICE_DRIVER(cuStreamCreateWithPriority);

namespace sluice::hook {
namespace {

CUresult seen(unsigned flags, CUresult result) {
  if (result == CUDA_SUCCESS && (flags & CU_STREAM_NON_BLOCKING) == 0) see_blocking_stream();
  return result;
}

CUresult unloaded(CUresult result) {
  if (result == CUDA_SUCCESS) doubt_kernels();
  return result;
}

}  // namespace
}  // namespace sluice::hook

using sluice::hook::seen;
using sluice::hook::unloaded;

extern "C" {

SLUICE_EXPORT CUresult cuLibraryUnload(CUlibrary library) {
  return unloaded(driver_cuLibraryUnload(library));
}
SLUICE_EXPORT CUresult cuModuleUnload(CUmodule module) {
  return unloaded(driver_cuModuleUnload(module));
}

SLUICE_EXPORT CUresult cuStreamCreate(CUstream* stream, unsigned flags) {
  return seen(flags, driver_cuStreamCreate(stream, flags));
}
SLUICE_EXPORT CUresult cuStreamCreateWithPriority(CUstream* stream, unsigned flags, int priority) {
  return seen(flags, driver_cuStreamCreateWithPriority(stream, flags, priority));
}

}  // extern "C"
