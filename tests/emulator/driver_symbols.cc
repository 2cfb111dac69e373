// cuGetProcAddress: which form of a function a program means, by the version of CUDA that it was
// built with and by its default stream.
#include <dlfcn.h>

#include <string_view>

#include "tests/emulator/driver.h"

namespace {
using sluice::emulator::kDriverVersion;

struct Form {
  std::string_view name;
  int version;  // of CUDA, in which it came
  unsigned flag;
  const char* symbol;
};
constexpr Form kForms[] = {
#define FOUND(name, version, flag, symbol) {#name, version, flag, #symbol},
#include "tests/emulator/symbols.inc"
};

// The newest form that is no newer than `version`; of the per-thread ones if they are asked for and
// there are any.
CUdriverProcAddressQueryResult find(std::string_view name, int version, std::uint64_t flags,
                                    const char** symbol) {
  bool known = false, per_thread = false;
  for (const Form& form : kForms) {
    if (form.name != name) continue;
    known = true;
    if (form.version > version) continue;
    const bool wanted = (flags & CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM) != 0;
    if (form.flag == 2 && !wanted) continue;
    if (form.flag == 1 && per_thread) continue;
    per_thread = form.flag == 2;
    *symbol = form.symbol;
  }
  if (*symbol != nullptr) return CU_GET_PROC_ADDRESS_SUCCESS;
  return known ? CU_GET_PROC_ADDRESS_VERSION_NOT_SUFFICIENT : CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND;
}

// This library's own, whatever else the process has under that name.
void* own_symbol(const char* symbol) {
  static void* const self = [] {
    Dl_info info{};
    dladdr(reinterpret_cast<const void*>(&kForms), &info);
    return dlopen(info.dli_fname, RTLD_NOW | RTLD_NOLOAD);
  }();
  return dlsym(self, symbol);
}
}  // namespace

CUresult cuGetProcAddress_v2(const char* symbol, void** function, int version, uint64_t flags,
                             CUdriverProcAddressQueryResult* found) {
  if (symbol == nullptr || function == nullptr || version > kDriverVersion || flags > 2)
    return CUDA_ERROR_INVALID_VALUE;
  *function = nullptr;
  const char* name = nullptr;
  const CUdriverProcAddressQueryResult status = find(symbol, version, flags, &name);
  if (found != nullptr) *found = status;
  if (name != nullptr) *function = own_symbol(name);
  return CUDA_SUCCESS;
}

// It has no status to say that there is no such function, so its result does: CUDA 11's manual.
CUresult cuGetProcAddress(const char* symbol, void** function, int version, uint64_t flags) {
  const CUresult result = cuGetProcAddress_v2(symbol, function, version, flags, nullptr);
  return result == CUDA_SUCCESS && *function == nullptr ? CUDA_ERROR_NOT_FOUND : result;
}
