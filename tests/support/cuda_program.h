// The common start of the tests' unmodified CUDA programs. A call that the driver refuses ends the
// program.
#pragma once

#include "abi/cuda_abi.h"

namespace sluice {

inline void need(CUresult result) {
  if (result != CUDA_SUCCESS) __builtin_trap();
}

// Returns a module in the first device's context, current in this thread; `text` is in the emulated
// driver's language.
inline CUmodule load_module(const char* text) {
  CUcontext context = nullptr;
  CUmodule module = nullptr;
  need(cuInit(0));
  need(cuDevicePrimaryCtxRetain(&context, 0));
  need(cuCtxSetCurrent(context));
  need(cuModuleLoadData(&module, text));
  return module;
}

inline CUfunction function(CUmodule module, const char* name) {
  CUfunction found = nullptr;
  need(cuModuleGetFunction(&found, module, name));
  return found;
}

inline CUstream new_stream(unsigned flags) {
  CUstream stream = nullptr;
  need(cuStreamCreate(&stream, flags));
  return stream;
}

// A kernel, launched into a stream once, as a graph.
template <typename Launch>
CUgraphExec graph_of(CUstream stream, Launch launch) {
  CUgraph graph = nullptr;
  CUgraphExec exec = nullptr;
  need(cuStreamBeginCapture_v2(stream, CU_STREAM_CAPTURE_MODE_GLOBAL));
  launch();
  need(cuStreamEndCapture(stream, &graph));
  need(cuGraphInstantiateWithFlags(&exec, graph, 0));
  return exec;
}

}  // namespace sluice
