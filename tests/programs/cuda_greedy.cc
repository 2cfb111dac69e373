// An unmodified CUDA program that does one thing for ever:
//
//   cuda_greedy kernel   launches a kernel of a millisecond and waits for it
//   cuda_greedy graph    launches a graph of such a kernel and waits for it
//   cuda_greedy queue    launches kernels of 10 us and never waits
//   cuda_greedy streams  launches kernels of 100 us into 16 streams in turn and never waits
//   cuda_greedy legacy   launches kernels of 200 us into the legacy stream, which others wait for
//   cuda_greedy lengths  launches kernels of 5 us to 3 ms by turns and never waits
//   cuda_greedy sparse   launches a kernel of a millisecond every 5 ms and never waits
//   cuda_greedy threads  as queue, in 8 threads with a stream each, kernels of 100 us
//   cuda_greedy ptsz     the same, into the default stream that each thread has of its own
//   cuda_greedy exec     as kernel; becomes the same program anew after every 40
//   cuda_greedy contexts launches kernels of 100 us into a stream of each of 4 contexts in turn and
//                        never waits
//   cuda_greedy devices  as kernel, on each of its devices, in a thread for each
//   cuda_greedy turns    launches a kernel of a millisecond on each of its devices in turn, and
//                        waits for all
#include <unistd.h>

#include <array>
#include <functional>
#include <string_view>
#include <thread>
#include <vector>

#include "tests/support/cuda_program.h"

extern "C" {
SLUICE_CUDA_VARIANT(cuLaunchKernel, _ptsz);
}

using sluice::need;
using sluice::new_stream;

namespace {

constexpr char kModule[] =
    "kernel tiny ns=5000\nkernel small ns=10000\nkernel tenth ns=100000\nkernel fifth ns=200000\n"
    "kernel work ns=1000000\nkernel large ns=3000000\n";

CUmodule module = nullptr;

CUfunction function(const char* name) {
  return sluice::function(module, name);
}

// On all of the device, so that no two run at once.
void launch(CUfunction kernel, CUstream stream) {
  need(cuLaunchKernel(kernel, 132, 1, 1, 1, 1, 1, 0, stream, nullptr, nullptr));
}

CUgraphExec graph_of(CUfunction work) {
  CUstream stream = new_stream(CU_STREAM_DEFAULT);
  return sluice::graph_of(stream, [&] { launch(work, stream); });
}

[[noreturn]] void wait_for_each(bool graphs) {
  CUfunction work = function("work");
  CUgraphExec graph = graphs ? graph_of(work) : nullptr;
  for (;;) {
    if (graphs)
      need(cuGraphLaunch(graph, nullptr));
    else
      launch(work, nullptr);
    need(cuStreamSynchronize(nullptr));
  }
}

[[noreturn]] void queue(CUfunction kernel, CUstream stream) {
  for (;;) launch(kernel, stream);
}

[[noreturn]] void queue_sparsely(CUfunction kernel, CUstream stream) {
  for (;;) {
    launch(kernel, stream);
    usleep(5000);
  }
}

[[noreturn]] void queue_in_turn(CUfunction kernel) {
  std::array<CUstream, 16> streams;
  for (CUstream& stream : streams) stream = new_stream(CU_STREAM_NON_BLOCKING);
  for (;;)
    for (CUstream stream : streams) launch(kernel, stream);
}

[[noreturn]] void queue_in_contexts() {
  struct Part {
    CUcontext context;
    CUfunction kernel;
    CUstream stream;
  };
  std::array<Part, 4> parts;
  for (Part& part : parts) {
    CUmodule own = nullptr;
    need(cuCtxCreate_v2(&part.context, 0, 0));
    need(cuModuleLoadData(&own, kModule));
    part.kernel = sluice::function(own, "tenth");
    part.stream = new_stream(CU_STREAM_NON_BLOCKING);
  }
  for (;;) {
    for (const Part& part : parts) {
      need(cuCtxSetCurrent(part.context));
      launch(part.kernel, part.stream);
    }
  }
}

struct OnDevice {
  CUcontext context;
  CUfunction kernel;
};

std::vector<OnDevice> on_all_devices() {
  int count = 0;
  need(cuDeviceGetCount(&count));
  std::vector<OnDevice> all(count);
  for (int device = 0; device < count; ++device) {
    CUmodule own = nullptr;
    need(cuDevicePrimaryCtxRetain(&all[device].context, device));
    need(cuCtxSetCurrent(all[device].context));
    need(cuModuleLoadData(&own, kModule));
    all[device].kernel = sluice::function(own, "work");
  }
  return all;
}

[[noreturn]] void wait_for_each_device() {
  std::vector<std::jthread> threads;
  for (const OnDevice& d : on_all_devices())
    threads.emplace_back([d] {
      need(cuCtxSetCurrent(d.context));
      for (;;) {
        launch(d.kernel, nullptr);
        need(cuStreamSynchronize(nullptr));
      }
    });
  for (;;) pause();
}

[[noreturn]] void wait_for_all_devices() {
  const std::vector<OnDevice> all = on_all_devices();
  for (;;) {
    for (const OnDevice& d : all) {
      need(cuCtxSetCurrent(d.context));
      launch(d.kernel, nullptr);
    }
    for (const OnDevice& d : all) {
      need(cuCtxSetCurrent(d.context));
      need(cuStreamSynchronize(nullptr));
    }
  }
}

[[noreturn]] void queue_by_turns(CUstream stream) {
  const std::array kernels = {function("tiny"),  function("work"), function("small"),
                              function("large"), function("tiny"), function("tenth")};
  for (;;)
    for (CUfunction kernel : kernels) launch(kernel, stream);
}

[[noreturn]] void in_threads(const std::function<void()>& work) {
  std::vector<std::jthread> threads;
  for (int i = 0; i < 8; ++i) threads.emplace_back(work);
  for (;;) pause();
}

CUcontext primary_context() {
  CUcontext context = nullptr;
  need(cuDevicePrimaryCtxRetain(&context, 0));
  return context;
}

[[noreturn]] void queue_in_own_stream() {
  need(cuCtxSetCurrent(primary_context()));
  queue(function("tenth"), new_stream(CU_STREAM_NON_BLOCKING));
}

[[noreturn]] void queue_in_default_stream() {
  need(cuCtxSetCurrent(primary_context()));
  CUfunction kernel = function("tenth");
  for (;;) need(cuLaunchKernel_ptsz(kernel, 132, 1, 1, 1, 1, 1, 0, nullptr, nullptr, nullptr));
}

void become_anew(char** arguments) {
  CUfunction work = function("work");
  for (int i = 0; i < 40; ++i) {
    launch(work, nullptr);
    need(cuStreamSynchronize(nullptr));
  }
  execv(arguments[0], arguments);
}

}  // namespace

int main(int count, char** arguments) {
  const std::string_view kind = count > 1 ? arguments[1] : "";
  module = sluice::load_module(kModule);
  if (kind == "kernel") wait_for_each(false);
  if (kind == "graph") wait_for_each(true);
  if (kind == "queue") queue(function("small"), new_stream(CU_STREAM_NON_BLOCKING));
  if (kind == "streams") queue_in_turn(function("tenth"));
  if (kind == "lengths") queue_by_turns(new_stream(CU_STREAM_NON_BLOCKING));
  if (kind == "sparse") queue_sparsely(function("work"), new_stream(CU_STREAM_NON_BLOCKING));
  if (kind == "threads") in_threads(queue_in_own_stream);
  if (kind == "ptsz") in_threads(queue_in_default_stream);
  if (kind == "exec") become_anew(arguments);
  if (kind == "contexts") queue_in_contexts();
  if (kind == "devices") wait_for_each_device();
  if (kind == "turns") wait_for_all_devices();
  if (kind == "legacy") {
    new_stream(CU_STREAM_DEFAULT);
    queue(function("fifth"), nullptr);
  }
  return 2;
}
