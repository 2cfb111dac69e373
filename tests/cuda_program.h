// What programs of the tests' that use CUDA and know nothing of Sluice begin with. Whatever the
// driver refuses them ends them.
#pragma once

#include "wire/cuda_abi.h"

namespace sluice {

inline void need(CUresult result) {
  if (result != CUDA_SUCCESS) __builtin_trap();
}

// The first device's, current in this thread; and in it a module, in the emulated driver's words.
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
