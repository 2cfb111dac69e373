// Streams, events and launches: what runs after what, and what the device's clock says.
#include "driver.h"

namespace conformance {
namespace {
// The clock of a real device is not that of the kernel: a little less counts as kept.
constexpr double kAbout = 0.9;
}  // namespace

void check_default_streams(const Bench& bench) {
  const Driver& cu = bench.cu;
  const Report& report = bench.report;
  const CUstream blocking = bench.stream(CU_STREAM_DEFAULT), apart = bench.stream();
  const CUevent legacy_done = bench.event();
  bench.launch(bench.spin, blocking);
  cu.cuEventRecord(legacy_done, nullptr);
  report.result(cu.cuEventQuery(legacy_done), CUDA_ERROR_NOT_READY,
                "the legacy stream waits for a blocking one");
  cu.cuCtxSynchronize();
  bench.launch(bench.spin, apart);
  cu.cuEventRecord(legacy_done, nullptr);
  report.result(cu.cuEventSynchronize(legacy_done), CUDA_SUCCESS,
                "the legacy stream is waited for");
  report.result(cu.cuStreamQuery(apart), CUDA_ERROR_NOT_READY, "not for a non-blocking one");
  cu.cuCtxSynchronize();
  bench.launch(bench.spin, CU_STREAM_LEGACY);
  report.result(cu.cuStreamQuery(nullptr), CUDA_ERROR_NOT_READY, "stream 0 is the legacy stream");
  report.result(cu.cuStreamQuery_ptsz(nullptr), CUDA_SUCCESS,
                "to a per-thread function it is the thread's");
  cu.cuCtxSynchronize();
  cu.cuLaunchKernel_ptsz(bench.spin, 1, 1, 1, 1, 1, 1, 0, nullptr, nullptr, nullptr);
  report.result(cu.cuStreamQuery(CU_STREAM_PER_THREAD), CUDA_ERROR_NOT_READY,
                "which is CU_STREAM_PER_THREAD");
  report.result(cu.cuStreamSynchronize_ptsz(nullptr), CUDA_SUCCESS, "and can be waited for");
  cu.cuStreamDestroy_v2(blocking);
  report.result(cu.cuStreamDestroy_v2(apart), CUDA_SUCCESS, "a stream is destroyed");
}

void check_events(const Bench& bench) {
  const Driver& cu = bench.cu;
  const Report& report = bench.report;
  const CUstream one = bench.stream(), two = bench.stream();
  const CUevent start = bench.event(), middle = bench.event(), end = bench.event();
  report.result(cu.cuEventQuery(start), CUDA_SUCCESS, "an event that was never recorded is done");
  report.result(cu.cuEventSynchronize(start), CUDA_SUCCESS, "waiting for it returns");
  float milliseconds = 0;
  report.result(cu.cuEventElapsedTime(&milliseconds, start, end), CUDA_ERROR_INVALID_HANDLE,
                "but it has no time");
  cu.cuEventRecord(start, one);
  bench.launch(bench.spin, one);
  cu.cuEventRecord(middle, one);
  report.result(cu.cuEventQuery(middle), CUDA_ERROR_NOT_READY, "a record waits for its stream");
  report.result(cu.cuEventElapsedTime(&milliseconds, start, middle), CUDA_ERROR_NOT_READY,
                "until then there is no time");
  report.result(cu.cuStreamQuery(one), CUDA_ERROR_NOT_READY, "the stream is busy");
  report.result(cu.cuStreamWaitEvent(two, middle, 0), CUDA_SUCCESS, "a stream waits for an event");
  bench.launch(bench.spin, two);
  cu.cuEventRecord(end, two);
  report.result(cu.cuEventSynchronize(end), CUDA_SUCCESS, "an event is waited for");
  report.result(cu.cuEventQuery(middle), CUDA_SUCCESS, "what came before it is done");
  report.check(bench.between(start, middle) >= kAbout * kSpinMs, "a kernel takes its time");
  report.check(bench.between(start, end) >= kAbout * 2 * kSpinMs,
               "one that waits for it comes after");
  const CUevent untimed = bench.event(CU_EVENT_DISABLE_TIMING);
  cu.cuEventRecord(untimed, one);
  cu.cuStreamSynchronize(one);
  report.result(cu.cuEventElapsedTime(&milliseconds, start, untimed), CUDA_ERROR_INVALID_HANDLE,
                "an event without timing has no time");
  CUevent bad = nullptr;
  report.result(cu.cuEventCreate(&bad, CU_EVENT_INTERPROCESS), CUDA_ERROR_INVALID_VALUE,
                "an event between processes has no timing");
  for (const CUevent event : {start, middle, end, untimed})
    report.result(cu.cuEventDestroy_v2(event), CUDA_SUCCESS, "an event is destroyed");
  cu.cuStreamDestroy_v2(one);
  cu.cuStreamDestroy_v2(two);
}

// Whose events can be looked at while another context is current, and who is told from whom.
void check_other_contexts(const Bench& bench) {
  const Driver& cu = bench.cu;
  const Report& report = bench.report;
  unsigned long long id = 0, other_id = 0, next_id = 0;
  const CUstream stream = bench.stream();
  const CUevent start = bench.event(), end = bench.event();
  cu.cuEventRecord(start, stream);
  bench.launch(bench.spin, stream);
  cu.cuEventRecord(end, stream);
  CUcontext other = nullptr, next = nullptr;
  report.result(cu.cuCtxCreate_v2(&other, 0, bench.device), CUDA_SUCCESS, "another context");
  report.result(cu.cuEventSynchronize(end), CUDA_SUCCESS, "one waits for an event of the first");
  cu.cuCtxSetCurrent(bench.context);
  bench.launch(bench.spin, stream);
  cu.cuEventRecord(end, stream);
  cu.cuCtxSetCurrent(other);
  report.result(cu.cuEventQuery(end), CUDA_ERROR_NOT_READY, "and looks at it");
  cu.cuEventSynchronize(end);
  report.result(cu.cuEventQuery(end), CUDA_SUCCESS, "until it is done");
  report.check(bench.between(start, end) >= kAbout * 2 * kSpinMs, "its time can be asked for");
  report.result(cu.cuCtxGetId(bench.context, &id), CUDA_SUCCESS, "the first has a number");
  report.result(cu.cuCtxGetId(nullptr, &other_id), CUDA_SUCCESS, "so has the one that is current");
  report.check(id != other_id, "they have not the same");
  cu.cuCtxDestroy_v2(other);
  cu.cuCtxCreate_v2(&next, 0, bench.device);
  cu.cuCtxGetId(next, &next_id);
  report.check(next_id != id && next_id != other_id, "and the next one has neither");
  cu.cuCtxDestroy_v2(next);
  cu.cuCtxSetCurrent(bench.context);
  cu.cuEventDestroy_v2(start);
  cu.cuEventDestroy_v2(end);
  cu.cuStreamDestroy_v2(stream);
}

void check_host_functions(const Bench& bench) {
  const Driver& cu = bench.cu;
  const Report& report = bench.report;
  const CUstream stream = bench.stream();
  int visits = 0;
  CUresult told = CUDA_ERROR_UNKNOWN;
  bench.launch(bench.spin, stream);
  report.result(cu.cuLaunchHostFunc(
                    stream, [](void* user) { ++*static_cast<int*>(user); }, &visits),
                CUDA_SUCCESS, "a function of the program's stands in a stream");
  report.equal(visits, 0, "it waits for what stands before it");
  report.result(cu.cuStreamQuery(stream), CUDA_ERROR_NOT_READY, "the stream is busy until then");
  report.result(cu.cuStreamSynchronize(stream), CUDA_SUCCESS, "it is waited for with its stream");
  report.equal(visits, 1, "it has run once");
  cu.cuStreamAddCallback(
      stream, [](CUstream, CUresult status, void* user) { *static_cast<CUresult*>(user) = status; },
      &told, 0);
  cu.cuStreamSynchronize(stream);
  report.result(told, CUDA_SUCCESS, "a callback is told how the stream is");
  cu.cuStreamDestroy_v2(stream);
}

void check_streams(const Bench& bench) {
  const Driver& cu = bench.cu;
  CUstream stream = nullptr;
  bench.report.result(cu.cuStreamCreate(&stream, 2), CUDA_ERROR_INVALID_VALUE,
                      "a stream has no other flags");
  stream = bench.stream();
  unsigned flags = 0;
  CUcontext context = nullptr;
  bench.report.result(cu.cuStreamGetFlags(stream, &flags), CUDA_SUCCESS, "cuStreamGetFlags");
  bench.report.equal(flags, CU_STREAM_NON_BLOCKING, "it is non-blocking");
  bench.report.result(cu.cuStreamGetCtx(stream, &context), CUDA_SUCCESS, "cuStreamGetCtx");
  bench.report.check(context == bench.context, "it is of its context");
  bench.launch(bench.spin, stream);
  bench.report.result(cu.cuStreamDestroy_v2(stream), CUDA_SUCCESS, "a busy stream is destroyed");
  bench.report.result(cu.cuCtxSynchronize(), CUDA_SUCCESS, "its work runs out");
}

void check_launches(const Bench& bench) {
  const Driver& cu = bench.cu;
  const Report& report = bench.report;
  const CUstream stream = bench.stream();
  const auto launch = [&](unsigned grid, unsigned block) {
    return cu.cuLaunchKernel(bench.brief, grid, 1, 1, block, 1, 1, 0, stream, nullptr, nullptr);
  };
  report.result(launch(1, 1), CUDA_SUCCESS, "a kernel is launched");
  report.result(launch(0, 1), CUDA_ERROR_INVALID_VALUE, "not without blocks");
  report.result(launch(1, 0), CUDA_ERROR_INVALID_VALUE, "nor without threads");
  report.result(launch(1, 4096), CUDA_ERROR_INVALID_VALUE, "nor with more than a block can have");
  CUlaunchConfig config{1, 1, 1, 1, 1, 1, 0, stream, nullptr, 0};
  report.result(cu.cuLaunchKernelEx(&config, bench.brief, nullptr, nullptr), CUDA_SUCCESS,
                "cuLaunchKernelEx");
  CUlaunchAttribute together{CU_LAUNCH_ATTRIBUTE_COOPERATIVE, {}, {}};
  together.value.cooperative = 1;
  config.attrs = &together;
  config.numAttrs = 1;
  report.result(cu.cuLaunchKernelEx(&config, bench.brief, nullptr, nullptr), CUDA_SUCCESS,
                "cuLaunchKernelEx, cooperative");
  report.result(cu.cuLaunchCooperativeKernel(bench.brief, 1, 1, 1, 1, 1, 1, 0, stream, nullptr),
                CUDA_SUCCESS, "cuLaunchCooperativeKernel");
  report.result(
      cu.cuLaunchCooperativeKernel(bench.brief, 1U << 20, 1, 1, 1, 1, 1, 0, stream, nullptr),
      CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE, "more blocks than can run at once do not cooperate");
  CUfunction missing = nullptr;
  report.result(cu.cuModuleGetFunction(&missing, bench.module, "missing"), CUDA_ERROR_NOT_FOUND,
                "a module has no function that it does not have");
  const CUevent start = bench.event(), end = bench.event();
  constexpr int kMany = 20;
  cu.cuEventRecord(start, stream);
  for (int i = 0; i < kMany; ++i) bench.launch(bench.spin, stream);
  cu.cuEventRecord(end, stream);
  cu.cuStreamSynchronize(stream);
  report.check(bench.between(start, end) >= kAbout * kMany * kSpinMs,
               "kernels of a stream run one after the other");
  cu.cuEventDestroy_v2(start);
  cu.cuEventDestroy_v2(end);
  cu.cuStreamDestroy_v2(stream);
}

}  // namespace conformance
