#include "hook/driver.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "hook/loader.h"

// Tells a hook, this one or a copy of it, from a driver.
extern "C" __attribute__((visibility("default"))) const int sluice_cuda_hook = 1;

namespace sluice::hook {
namespace {

constexpr char kDriver[] = "libcuda.so.1";

// Where a bind mount over the driver keeps the driver itself.
constexpr char kBehindMount[] = "/run/sluice/driver";

// Where drivers lie that the loader knows from its cache alone: distributions, WSL, containers,
// Tegra.
constexpr const char* kUsual[] = {
    "/usr/lib64",
    "/usr/lib/wsl/lib",
    "/usr/local/nvidia/lib64",
    "/usr/local/nvidia/lib",
    "/usr/local/cuda/compat",
    "/usr/lib/aarch64-linux-gnu/nvidia",
    "/usr/lib/aarch64-linux-gnu/tegra",
};

void* opened;  // the driver, once found

// A path may lead back here, or to a copy of this library, where it was mounted over the driver.
void* open_driver_at(const char* path) {
  void* library = sluice_dlopen(path, RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr || sluice_dlsym(library, "sluice_cuda_hook") == nullptr) return library;
  sluice_dlclose(library);
  return nullptr;
}

void* open_driver_in(const char* folder) {
  char path[PATH_MAX];
  const int length = snprintf(path, sizeof path, "%s/%s", folder, kDriver);
  return folder[0] == '/' && length < PATH_MAX ? open_driver_at(path) : nullptr;
}

// LD_LIBRARY_PATH as it was when the program began, then the system's folders.
void* open_driver_where_the_loader_looks() {
  Dl_info self;
  void* map = nullptr;
  Dl_serinfo size;
  if (sluice_dladdr1(&sluice_cuda_hook, &self, &map, RTLD_DL_LINKMAP) == 0) return nullptr;
  if (sluice_dlinfo(map, RTLD_DI_SERINFOSIZE, &size) != 0) return nullptr;
  auto* folders = static_cast<Dl_serinfo*>(malloc(size.dls_size));
  void* found = nullptr;
  if (folders == nullptr) return nullptr;
  *folders = size;
  if (sluice_dlinfo(map, RTLD_DI_SERINFO, folders) == 0)
    for (unsigned i = 0; i < folders->dls_cnt && found == nullptr; ++i)
      found = open_driver_in(folders->dls_serpath[i].dls_name);
  free(folders);
  return found;
}

// What the program would have got without us.
void* open_driver() {
  if (!has_loader()) return nullptr;
  const char* chosen = secure_getenv("SLUICE_CUDA_DRIVER");  // NOLINT(concurrency-mt-unsafe)
  if (chosen != nullptr) return open_driver_at(chosen);
  void* found = open_driver_in(kBehindMount);
  if (found == nullptr) found = open_driver_where_the_loader_looks();
  for (const char* folder : kUsual)
    if (found == nullptr) found = open_driver_in(folder);
  return found;
}

void* driver() {
  void* library = __atomic_load_n(&opened, __ATOMIC_ACQUIRE);
  if (library != nullptr) return library;
  library = open_driver();
  if (library != nullptr) __atomic_store_n(&opened, library, __ATOMIC_RELEASE);
  return library;
}

// One string, for an array of pointers would be relocated in every process that maps us.
const char* name_of(unsigned entry) {
  static constexpr char kNames[] =
#define SLUICE_PASSED(name) #name "\0"
#define SLUICE_HOOKED(name, symbol, version, flags) #name "\0"
#include "hook/entry_points.inc"
#undef SLUICE_PASSED
#undef SLUICE_HOOKED
      ;
  const char* name = kNames;
  while (entry-- > 0) name += strlen(name) + 1;
  return name;
}

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
  void* library = driver();
  return library != nullptr ? sluice_dlsym(library, name) : nullptr;
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
  if (driver() != nullptr) {
    function = driver_function(name_of(entry));
    if (function == nullptr) function = reinterpret_cast<void*>(no_such_function);
    __atomic_store_n(&sluice_driver_table[entry], function, __ATOMIC_RELEASE);
  }
  errno = saved_errno;
  return function;
}

}  // extern "C"
