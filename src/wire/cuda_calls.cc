#include "wire/cuda_calls.h"

#include <dlfcn.h>

#include <cstring>
#include <string>

namespace sluice::wire {
namespace {

template <class F>
Result<void> find(void* library, const char* name, F& function) {
  function = reinterpret_cast<F>(::dlsym(library, name));
  if (function != nullptr) return {};
  return Error{ErrorKind::kUnavailable, std::string("the CUDA driver has no ") + name};
}

}  // namespace

Result<void> CudaCalls::check(CUresult result, const char* what) const {
  if (result == CUDA_SUCCESS) return {};
  const char* name = nullptr;
  if (cuGetErrorName(result, &name) != CUDA_SUCCESS || name == nullptr) name = "unknown to it";
  return Error{
      result == CUDA_ERROR_OUT_OF_MEMORY ? ErrorKind::kExhausted : ErrorKind::kInternal,
      std::string(what) + ": error " + std::to_string(static_cast<int>(result)) + ", " + name};
}

Result<CUdevice> CudaCalls::device_of(const uint8_t (&uuid)[16]) const {
  int count = 0;
  SLUICE_TRY(check(cuDeviceGetCount(&count), "cuDeviceGetCount"));
  for (int i = 0; i < count; ++i) {
    CUdevice device = 0;
    CUuuid its{};
    SLUICE_TRY(check(cuDeviceGet(&device, i), "cuDeviceGet"));
    SLUICE_TRY(check(cuDeviceGetUuid_v2(&its, device), "cuDeviceGetUuid"));
    if (std::memcmp(&its, uuid, sizeof uuid) == 0) return device;
  }
  return Error{ErrorKind::kNotFound,
               "the GPU is none of the " + std::to_string(count) + " that this process sees"};
}

Result<CudaCalls> open_cuda() {
  void* library = ::dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) return Error{ErrorKind::kUnavailable, ::dlerror()};
  CudaCalls calls;
#define SLUICE_CUDA_CALL(name) SLUICE_TRY(find(library, #name, calls.name));
  SLUICE_CUDA_CALLS(SLUICE_CUDA_CALL)
#undef SLUICE_CUDA_CALL
  if (const auto ready = calls.check(calls.cuInit(0), "cuInit"); !ready.ok())
    return Error{ErrorKind::kUnavailable, ready.error().message};
  return calls;
}

}  // namespace sluice::wire
