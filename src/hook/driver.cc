#include "hook/driver.h"

#include <errno.h>

#include "hook/real_library.h"

// Tells a hook, this one or a copy of it, from a driver.
extern "C" __attribute__((visibility("default"))) const int sluice_cuda_hook = 1;

namespace sluice::hook {
namespace {

constinit RealLibrary driver("libcuda.so.1", "sluice_cuda_hook", &sluice_cuda_hook,
                             "SLUICE_CUDA_DRIVER");

constexpr char kNames[] =
#define SLUICE_PASSED(name) #name "\0"
#define SLUICE_HOOKED(name, symbol, version, flags) #name "\0"
#include "hook/entry_points.inc"
#undef SLUICE_PASSED
#undef SLUICE_HOOKED
    ;

// ---- what is called where there is nothing to call ----------------------------------------------

CUresult no_driver() {
  return CUDA_ERROR_NO_DEVICE;
}

CUresult no_such_function() {
  return CUDA_ERROR_CALL_REQUIRES_NEWER_DRIVER;
}

// Programs print what these return without looking whether they failed.
CUresult error_name(CUresult error, const char** name) {
  *name = error == CUDA_ERROR_NO_DEVICE ? "CUDA_ERROR_NO_DEVICE" : nullptr;
  return *name != nullptr ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult error_string(CUresult error, const char** text) {
  *text = error == CUDA_ERROR_NO_DEVICE ? "no CUDA driver was found" : nullptr;
  return *text != nullptr ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

void* without_driver(Entry entry) {
  if (entry == Entry::cuGetErrorName) return reinterpret_cast<void*>(error_name);
  if (entry == Entry::cuGetErrorString) return reinterpret_cast<void*>(error_string);
  return reinterpret_cast<void*>(no_driver);
}

}  // namespace

void* driver_function(const char* name) {
  return driver.function(name);
}

}  // namespace sluice::hook

extern "C" {

extern __attribute__((visibility("hidden"))) void* sluice_driver_table[];

// From the trampolines: where `entry` leads, from now on too. A driver that is missing may come
// yet.
__attribute__((visibility("hidden"))) void* sluice_resolve_entry(unsigned entry) {
  using namespace sluice::hook;
  const int saved_errno = errno;
  void* function = without_driver(static_cast<Entry>(entry));
  if (driver.open() != nullptr) {
    function = driver_function(name_in(kNames, entry));
    if (function == nullptr) function = reinterpret_cast<void*>(no_such_function);
    __atomic_store_n(&sluice_driver_table[entry], function, __ATOMIC_RELEASE);
  }
  errno = saved_errno;
  return function;
}

}  // extern "C"
