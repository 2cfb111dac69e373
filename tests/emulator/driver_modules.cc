// Modules, which are texts (module_text.h), and their functions.
#include <fstream>
#include <iterator>

#include "tests/emulator/driver.h"
#include "tests/emulator/module_text.h"

using namespace sluice::emulator;

CUresult cuModuleLoadData(CUmodule* module, const void* image) {
  Call call(__func__);
  if (call.refused() != CUDA_SUCCESS) return call.refused();
  if (module == nullptr || image == nullptr) return CUDA_ERROR_INVALID_VALUE;
  std::vector<KernelText> kernels;
  if (!read_module(static_cast<const char*>(image), kernels)) return CUDA_ERROR_INVALID_IMAGE;
  Module* made = call.driver().modules.add(std::make_unique<Module>(Module{call.context()}));
  for (const KernelText& text : kernels)
    call.driver().functions.add(std::make_unique<Function>(
        Function{made, text.name, text.kernel, static_cast<CUresult>(text.fault)}));
  *module = reinterpret_cast<CUmodule>(made);
  return CUDA_SUCCESS;
}

CUresult cuModuleLoadDataEx(CUmodule* module, const void* image, unsigned, CUjit_option*, void**) {
  return cuModuleLoadData(module, image);
}
CUresult cuModuleLoadFatBinary(CUmodule* module, const void* image) {
  return cuModuleLoadData(module, image);
}

CUresult cuModuleLoad(CUmodule* module, const char* path) {
  if (path == nullptr) return CUDA_ERROR_INVALID_VALUE;
  std::ifstream file(path);
  if (!file) return CUDA_ERROR_FILE_NOT_FOUND;
  const std::string text{std::istreambuf_iterator<char>(file), {}};
  return cuModuleLoadData(module, text.c_str());
}

CUresult cuModuleUnload(CUmodule handle) {
  Call call(__func__);
  if (call.refused() != CUDA_SUCCESS) return call.refused();
  Module* module = call.driver().modules.find(handle);
  if (module == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  call.driver().functions.remove_if([&](const Function& f) { return f.module == module; });
  call.driver().modules.remove(module);
  return CUDA_SUCCESS;
}

CUresult cuModuleGetFunction(CUfunction* function, CUmodule handle, const char* name) {
  Call call(__func__);
  if (call.refused() != CUDA_SUCCESS) return call.refused();
  if (function == nullptr || name == nullptr) return CUDA_ERROR_INVALID_VALUE;
  Module* module = call.driver().modules.find(handle);
  if (module == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  Function* found = nullptr;
  call.driver().functions.for_each([&](Function& f) {
    if (f.module == module && f.name == name) found = &f;
  });
  if (found == nullptr) return CUDA_ERROR_NOT_FOUND;
  *function = reinterpret_cast<CUfunction>(found);
  return CUDA_SUCCESS;
}

CUresult cuFuncGetAttribute(int* value, CUfunction_attribute attribute, CUfunction handle) {
  const Call call(__func__);
  if (call.refused() != CUDA_SUCCESS) return call.refused();
  if (value == nullptr) return CUDA_ERROR_INVALID_VALUE;
  if (call.driver().functions.find(handle) == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  *value = attribute == CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK ? 1024 : 0;
  return CUDA_SUCCESS;
}

CUresult cuFuncSetAttribute(CUfunction handle, CUfunction_attribute, int) {
  const Call call(__func__);
  if (call.refused() != CUDA_SUCCESS) return call.refused();
  return call.driver().functions.find(handle) == nullptr ? CUDA_ERROR_INVALID_HANDLE : CUDA_SUCCESS;
}

CUresult cuFuncGetName(const char** name, CUfunction handle) {
  const Call call(__func__);
  if (call.refused() != CUDA_SUCCESS) return call.refused();
  const Function* function = call.driver().functions.find(handle);
  if (name == nullptr) return CUDA_ERROR_INVALID_VALUE;
  if (function == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  *name = function->name.c_str();
  return CUDA_SUCCESS;
}
