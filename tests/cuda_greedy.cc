// A CUDA program that knows nothing of Sluice: kernels of a millisecond, one after the other, each
// waited for. With the argument "graph" each is the launch of a graph.
#include <cstring>

#include "wire/cuda_abi.h"

namespace {

void need(CUresult result) {
  if (result != CUDA_SUCCESS) __builtin_trap();
}

CUgraphExec graph_of(CUfunction work) {
  CUstream stream = nullptr;
  CUgraph graph = nullptr;
  CUgraphExec exec = nullptr;
  need(cuStreamCreate(&stream, 0));
  need(cuStreamBeginCapture_v2(stream, CU_STREAM_CAPTURE_MODE_GLOBAL));
  need(cuLaunchKernel(work, 1, 1, 1, 1, 1, 1, 0, stream, nullptr, nullptr));
  need(cuStreamEndCapture(stream, &graph));
  need(cuGraphInstantiateWithFlags(&exec, graph, 0));
  return exec;
}

}  // namespace

int main(int count, char** arguments) {
  CUcontext context = nullptr;
  CUmodule module = nullptr;
  CUfunction work = nullptr;
  need(cuInit(0));
  need(cuDevicePrimaryCtxRetain(&context, 0));
  need(cuCtxSetCurrent(context));
  need(cuModuleLoadData(&module, "kernel work ns=1000000"));
  need(cuModuleGetFunction(&work, module, "work"));
  const bool graphs = count > 1 && std::strcmp(arguments[1], "graph") == 0;
  CUgraphExec graph = graphs ? graph_of(work) : nullptr;
  for (;;) {
    if (graphs)
      need(cuGraphLaunch(graph, nullptr));
    else
      need(cuLaunchKernel(work, 1, 1, 1, 1, 1, 1, 0, nullptr, nullptr, nullptr));
    need(cuStreamSynchronize(nullptr));
  }
}
