#include "bench/gpu/gpu.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>

namespace sluice::bench {
namespace {

// Returns a module for a driver that compiles it and, in the line behind //@, for the emulated one.
std::string spin_module(uint64_t ns) {
  const std::string n = std::to_string(ns);
  return "//@ kernel spin ns=" + std::to_string(ns == 0 ? 1000 : ns) + R"(
.version 6.3
.target sm_75
.address_size 64
.visible .entry spin()
{
  .reg .u64 %now, %end;
  .reg .pred %on;
  mov.u64 %end, %globaltimer;
  add.u64 %end, %end, )" +
         n + R"(;
again:
  mov.u64 %now, %globaltimer;
  setp.lt.u64 %on, %now, %end;
  @%on bra again;
  ret;
}
)";
}

}  // namespace

std::string word_for(CUresult result) {
  const char* name = nullptr;
  return cuGetErrorName(result, &name) == CUDA_SUCCESS ? name : std::to_string(result);
}

void check(CUresult result, const char* call) {
  if (result == CUDA_SUCCESS) return;
  std::fprintf(stderr, "%s: %s\n", call, word_for(result).c_str());
  std::exit(1);
}

Gpu::Gpu() {
  GPU_CHECK(cuInit(0));
  GPU_CHECK(cuDeviceGet(&device_, 0));
  GPU_CHECK(cuDevicePrimaryCtxRetain(&context_, device_));
  GPU_CHECK(cuCtxSetCurrent(context_));
}

std::string Gpu::name() const {
  char text[256] = "";
  GPU_CHECK(cuDeviceGetName(text, sizeof text, device_));
  return text;
}

unsigned Gpu::sms() const {
  int value = 0;
  GPU_CHECK(cuDeviceGetAttribute(&value, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, device_));
  return static_cast<unsigned>(value);
}

CUfunction Gpu::load(const std::string& module_text, const char* name) {
  CUmodule module = nullptr;
  CUfunction function = nullptr;
  GPU_CHECK(cuModuleLoadData(&module, module_text.c_str()));
  GPU_CHECK(cuModuleGetFunction(&function, module, name));
  return function;
}

CUfunction Gpu::kernel(uint64_t ns) {
  const CUfunction function = load(spin_module(ns), "spin");
  launch(function);  // compiled and loaded when it returns
  GPU_CHECK(cuCtxSynchronize());
  return function;
}

void Gpu::launch(CUfunction kernel, CUstream stream) const {
  GPU_CHECK(cuLaunchKernel(kernel, 1, 1, 1, 1, 1, 1, 0, stream, nullptr, nullptr));
}

CUstream Gpu::stream() {
  CUstream stream = nullptr;
  GPU_CHECK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
  return stream;
}

CUevent Gpu::event(unsigned flags) {
  CUevent event = nullptr;
  GPU_CHECK(cuEventCreate(&event, flags));
  return event;
}

double percentile(std::vector<double> values, double p) {
  if (values.empty()) return 0;
  std::sort(values.begin(), values.end());
  return values[std::min(values.size() - 1, static_cast<size_t>(p * values.size()))];
}

}  // namespace sluice::bench
