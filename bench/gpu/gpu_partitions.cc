// gpu_partitions: in which steps a device's SMs can be parted by green contexts, what making one
// costs, and what changing to another does: whether a share of SMs can change while a program runs.
// And what a launch costs that runs beside its stream, in a green context's, tied to it by events:
// the way in which the hook has it change.
//
//   gpu_partitions [--json FILE]
#include <vector>

#include "bench/gpu/gpu.h"
#include "bench/report.h"

namespace sluice::bench {
namespace {

constexpr int kRounds = 50;

#if CUDA_VERSION >= 12040

// Of groups with at least `wanted` SMs: how many each has. 0: the driver refuses.
unsigned group_of(const CUdevResource& all, unsigned wanted, CUdevResource* group) {
  CUdevResource rest{};
  unsigned groups = 1;
  const CUresult result = cuDevSmResourceSplitByCount(group, &groups, &all, &rest, 0, wanted);
  return result == CUDA_SUCCESS && groups == 1 ? group->sm.smCount : 0;
}

CUgreenCtx green_context(CUdevice device, CUdevResource group) {
  CUdevResourceDesc description = nullptr;
  CUgreenCtx context = nullptr;
  GPU_CHECK(cuDevResourceGenerateDesc(&description, &group, 1));
  GPU_CHECK(cuGreenCtxCreate(&context, description, device, CU_GREEN_CTX_DEFAULT_STREAM));
  return context;
}

void steps(Report& report, const CUdevResource& all) {
  std::string line = "wanted → given:";
  unsigned before = 0;
  for (unsigned wanted = 1; wanted <= all.sm.smCount; ++wanted) {
    CUdevResource group{};
    const unsigned given = group_of(all, wanted, &group);
    if (given != before) line += " " + std::to_string(wanted) + "→" + std::to_string(given);
    before = given;
  }
  report.note(line);
}

void changes(Report& report, Gpu& gpu, const CUdevResource& all) {
  CUdevResource half{}, quarter{};
  if (group_of(all, all.sm.smCount / 2, &half) == 0 ||
      group_of(all, all.sm.smCount / 4, &quarter) == 0)
    return report.note("a half and a quarter of the SMs cannot be had");
  std::vector<double> made, changed, ended;
  for (int round = 0; round < kRounds; ++round) {
    uint64_t start = now_ns();
    const CUgreenCtx green = green_context(gpu.device(), round % 2 == 0 ? half : quarter);
    made.push_back(static_cast<double>(now_ns() - start) / 1e3);
    CUcontext context = nullptr, before = nullptr;
    GPU_CHECK(cuCtxFromGreenCtx(&context, green));
    GPU_CHECK(cuCtxGetCurrent(&before));
    start = now_ns();
    GPU_CHECK(cuCtxSetCurrent(context));
    changed.push_back(static_cast<double>(now_ns() - start) / 1e3);
    GPU_CHECK(cuCtxSetCurrent(before));
    start = now_ns();
    GPU_CHECK(cuGreenCtxDestroy(green));
    ended.push_back(static_cast<double>(now_ns() - start) / 1e3);
  }
  const auto add = [&](const char* what, std::vector<double> us) {
    const Samples s = summarise(std::move(us));
    report.add(Row(what, s.p50, "us").of(s));
  };
  add("a green context is made", made);
  add("the thread changes to it", changed);
  add("it is destroyed", ended);
}

// So many kernels of a stream, one behind the other: us each.
double chain_us(Gpu& gpu, CUfunction kernel, CUstream stream, CUstream beside, CUevent event) {
  constexpr int kChain = 200;
  const uint64_t start = now_ns();
  for (int i = 0; i < kChain; ++i) {
    if (beside == nullptr) {
      gpu.launch(kernel, stream);
      continue;
    }
    GPU_CHECK(cuEventRecord(event, stream));
    GPU_CHECK(cuStreamWaitEvent(beside, event, 0));
    gpu.launch(kernel, beside);
    GPU_CHECK(cuEventRecord(event, beside));
    GPU_CHECK(cuStreamWaitEvent(stream, event, 0));
  }
  GPU_CHECK(cuStreamSynchronize(stream));
  return static_cast<double>(now_ns() - start) / 1e3 / kChain;
}

void launches_beside(Report& report, Gpu& gpu, const CUdevResource& all) {
  CUdevResource half{};
  if (group_of(all, all.sm.smCount / 2, &half) == 0) return;
  const CUgreenCtx green = green_context(gpu.device(), half);
  CUstream beside = nullptr;
  GPU_CHECK(cuGreenCtxStreamCreate(&beside, green, CU_STREAM_NON_BLOCKING, 0));
  const CUstream stream = Gpu::stream();
  const CUevent event = Gpu::event(CU_EVENT_DISABLE_TIMING);
  for (const uint64_t us : {0, 5, 20, 100}) {
    const CUfunction kernel = gpu.kernel(us * 1000);
    std::vector<double> added;
    for (int round = 0; round < kRounds; ++round)
      added.push_back(chain_us(gpu, kernel, stream, beside, event) -
                      chain_us(gpu, kernel, stream, nullptr, nullptr));
    const Samples s = summarise(std::move(added));
    report.add(
        Row("a launch beside its stream adds, " + std::to_string(us) + " us", s.p50, "us").of(s));
  }
  GPU_CHECK(cuEventDestroy(event));
  GPU_CHECK(cuStreamDestroy(stream));
  GPU_CHECK(cuStreamDestroy(beside));
  GPU_CHECK(cuGreenCtxDestroy(green));
}

#endif

void measure(Report& report, Gpu& gpu) {
#if CUDA_VERSION >= 12040
  CUdevResource all{};
  const CUresult result = cuDeviceGetDevResource(gpu.device(), &all, CU_DEV_RESOURCE_TYPE_SM);
  if (result != CUDA_SUCCESS) return report.note("no green contexts: " + word_for(result));
  steps(report, all);
  changes(report, gpu, all);
  launches_beside(report, gpu, all);
#else
  report.note("built with a cuda.h that has no green contexts");
#endif
}

}  // namespace
}  // namespace sluice::bench

int main(int argc, char** argv) {
  using namespace sluice::bench;
  Report report("gpu_partitions", argc, argv);
  Gpu gpu;
  const int sms = gpu.attribute(CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT);
  report.add(Row("SMs of " + gpu.name(), sms, "SMs"));
  measure(report, gpu);
  return report.finish();
}
