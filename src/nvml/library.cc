#include "nvml/library.h"

#include <errno.h>
#include <string.h>

#include "hook/real_library.h"

// Tells a hook, this one or a copy of it, from NVML.
extern "C" __attribute__((visibility("default"))) const int sluice_nvml_hook = 1;

namespace sluice::hook::nvml {
namespace {

constinit RealLibrary library("libnvidia-ml.so.1", "sluice_nvml_hook", &sluice_nvml_hook,
                              "SLUICE_NVML_LIBRARY");

constexpr char kNames[] =
#define SLUICE_PASSED(name) #name "\0"
#define SLUICE_HOOKED(name) #name "\0"
#include "nvml/entry_points.inc"
#undef SLUICE_PASSED
#undef SLUICE_HOOKED
    ;

// ---- what is called if the real library lacks the function --------------------------------------

nvmlReturn_t no_library() {
  return NVML_ERROR_LIBRARY_NOT_FOUND;
}

nvmlReturn_t no_such_function() {
  return NVML_ERROR_FUNCTION_NOT_FOUND;
}

// Programs print what it returns.
const char* error_string(nvmlReturn_t) {
  return "NVML was not found";
}

void* without_library(const char* name) {
  return strcmp(name, "nvmlErrorString") == 0 ? reinterpret_cast<void*>(error_string)
                                              : reinterpret_cast<void*>(no_library);
}

}  // namespace
}  // namespace sluice::hook::nvml

extern "C" {

extern __attribute__((visibility("hidden"))) void* sluice_driver_table[];

// Called by the trampolines: finds where `entry` leads, and remembers it. A missing library is not
// remembered: it may be installed later.
__attribute__((visibility("hidden"))) void* sluice_resolve_entry(unsigned entry) {
  using namespace sluice::hook::nvml;
  const int saved_errno = errno;
  const char* name = sluice::hook::name_in(kNames, entry);
  void* function = without_library(name);
  if (library.open() != nullptr) {
    function = library.function(name);
    if (function == nullptr) function = reinterpret_cast<void*>(no_such_function);
    __atomic_store_n(&sluice_driver_table[entry], function, __ATOMIC_RELEASE);
  }
  errno = saved_errno;
  return function;
}

}  // extern "C"
