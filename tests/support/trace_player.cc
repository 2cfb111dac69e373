#include "tests/support/trace_player.h"

#include <algorithm>
#include <string>
#include <thread>
#include <utility>

namespace sluice::emulator {
namespace {

using Kind = TraceStep::Kind;

}  // namespace

std::vector<std::span<const TraceStep>> iterations_of(const LaunchTrace& trace) {
  std::vector<std::span<const TraceStep>> iterations;
  const std::span<const TraceStep> all = trace.steps;
  size_t begin = 0;
  for (size_t i = 0; i < all.size(); ++i) {
    if (all[i].kind != Kind::kSync) continue;
    if (i > begin) iterations.push_back(all.subspan(begin, i + 1 - begin));
    begin = i + 1;
  }
  return iterations;
}

void slow_down(LaunchTrace& trace, unsigned times) {
  for (TraceKernel& kernel : trace.kernels) kernel.ns *= times;
  for (TraceStep& step : trace.steps) step.gap_ns *= times;
}

bool TracePlayer::did(CUresult result) {
  if (result_ == CUDA_SUCCESS) result_ = result;
  return result_ == CUDA_SUCCESS;
}

TracePlayer::TracePlayer(const LaunchTrace& trace, const Clock& clock)
    : trace_(trace), clock_(clock) {
  CUmodule module = nullptr;
  if (!did(cuModuleLoadData(&module, module_of(trace).c_str()))) return;
  for (size_t i = 0; i < trace.kernels.size(); ++i) {
    const std::string name = "k" + std::to_string(i);
    if (!did(cuModuleGetFunction(&kernels_.emplace_back(), module, name.c_str()))) return;
  }
  streams_.resize(std::max(trace.streams, 1U));
  for (CUstream& stream : streams_)
    if (!did(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING))) return;
  for (const auto& kernels : trace.graphs) make_graph(kernels);
  std::uint64_t most = 1;
  for (const TraceStep& step : trace.steps) most = std::max(most, step.bytes);
  if (did(cuMemAlloc_v2(&device_memory_, 2 * most))) did(cuMemAllocHost_v2(&host_memory_, most));
}

void TracePlayer::make_graph(const std::vector<std::uint32_t>& kernels) {
  CUgraph graph = nullptr;
  if (!did(cuStreamBeginCapture_v2(streams_[0], CU_STREAM_CAPTURE_MODE_THREAD_LOCAL))) return;
  for (const std::uint32_t kernel : kernels) did(launch(kernel, streams_[0]));
  if (!did(cuStreamEndCapture(streams_[0], &graph))) return;
  did(cuGraphInstantiateWithFlags(&graphs_.emplace_back(), graph, 0));
}

CUresult TracePlayer::launch(std::uint32_t kernel, CUstream stream) {
  return cuLaunchKernel(kernels_[kernel], trace_.kernels[kernel].blocks, 1, 1, 1, 1, 1, 0, stream,
                        nullptr, nullptr);
}

CUresult TracePlayer::take(const TraceStep& step) {
  const CUstream stream = streams_[step.stream];
  switch (step.kind) {
    case Kind::kKernel:
      return launch(step.what, stream);
    case Kind::kGraph:
      return cuGraphLaunch(graphs_[step.what], stream);
    case Kind::kCopyTo:
      return cuMemcpyHtoDAsync_v2(device_memory_, host_memory_, step.bytes, stream);
    case Kind::kCopyFrom:
      return cuMemcpyDtoHAsync_v2(host_memory_, device_memory_, step.bytes, stream);
    case Kind::kCopyWithin:
      return cuMemcpyDtoDAsync_v2(device_memory_ + step.bytes, device_memory_, step.bytes, stream);
    case Kind::kSet:
      return cuMemsetD8Async(device_memory_, 0, step.bytes, stream);
    case Kind::kSync:
      break;
  }
  return cuCtxSynchronize();
}

CUresult TracePlayer::play(std::span<const TraceStep> steps, Gaps gaps) {
  constexpr Nanos kLeastSleep = Micros(500);
  if (result_ != CUDA_SUCCESS) return result_;
  Time returned = clock_.now();
  Nanos to_sleep{0};
  for (const TraceStep& step : steps) {
    if (gaps == Gaps::kKept)
      while (clock_.now() < returned + Nanos(step.gap_ns)) {
      }
    if (gaps == Gaps::kSlept && (to_sleep += Nanos(step.gap_ns)) >= kLeastSleep)
      std::this_thread::sleep_for(std::exchange(to_sleep, Nanos(0)));
    if (!did(take(step))) break;
    returned = clock_.now();
  }
  return result_;
}

}  // namespace sluice::emulator
