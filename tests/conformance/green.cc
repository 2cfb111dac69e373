// Green contexts: how SMs are parted, and what a stream on some of them is to the others. That its
// kernels stay there no call can tell: bench/gpu does, by the SMs on which they find themselves.
#include "driver.h"

namespace conformance {
namespace {
bool refused(CUresult result) {
  return result != CUDA_SUCCESS;
}

CUdevResource check_parts(const Bench& bench) {
  const Driver& cu = bench.cu;
  Report& report = bench.report;
  CUdevResource all{};
  report.result(cu.cuDeviceGetDevResource(bench.device, &all, CU_DEV_RESOURCE_TYPE_SM),
                CUDA_SUCCESS, "a device has SMs as a resource");
  int sms = 0, major = 0, minor = 0;
  cu.cuDeviceGetAttribute(&sms, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, bench.device);
  cu.cuDeviceComputeCapability(&major, &minor, bench.device);
  report.equal(all.sm.smCount, sms, "which are all of its SMs");
  const unsigned least = major >= 9 ? 8 : major == 8 ? 4 : 2, step = major >= 9 ? 8 : 2;
  unsigned count = 0;
  report.result(cu.cuDevSmResourceSplitByCount(nullptr, &count, &all, nullptr, 0, 1), CUDA_SUCCESS,
                "how many parts there can be is answered without making them");
  report.check(count >= 1 && count <= all.sm.smCount / least,
               "no more than its SMs are enough for");
  CUdevResource part{}, rest{};
  count = 1;
  report.result(cu.cuDevSmResourceSplitByCount(&part, &count, &all, &rest, 0, 1), CUDA_SUCCESS,
                "the smallest part is made");
  report.equal(part.sm.smCount, least, "it is as large as the compute capability says");
  report.equal(rest.sm.smCount, all.sm.smCount - least, "the rest is what is left");
  count = 1;
  cu.cuDevSmResourceSplitByCount(&part, &count, &all, nullptr, 0, least + 1);
  report.equal(part.sm.smCount, (least / step + 1) * step, "what is asked for is rounded up");
  count = 1;
  CUdevResource again{};
  report.check(refused(cu.cuDevSmResourceSplitByCount(&again, &count, &part, nullptr, 0, 1)),
               "a part is not split again");
  report.check(
      refused(cu.cuDevSmResourceSplitByCount(&part, &count, &all, nullptr, 0, all.sm.smCount + 1)),
      "nor can it have more SMs than there are");
  CUdevResource two[2] = {};
  count = 2;
  cu.cuDevSmResourceSplitByCount(two, &count, &all, nullptr, 0, least);
  report.equal(count, 2, "several are made at once");
  CUdevResourceDesc descriptor = nullptr;
  report.result(cu.cuDevResourceGenerateDesc(&descriptor, two, 2), CUDA_SUCCESS,
                "and described together");
  two[1] = part;
  report.result(cu.cuDevResourceGenerateDesc(&descriptor, two, 2),
                CUDA_ERROR_INVALID_RESOURCE_CONFIGURATION, "not with those of another split");
  return two[0];
}

void check_context(const Bench& bench, CUgreenCtx green, const CUdevResource& part) {
  const Driver& cu = bench.cu;
  Report& report = bench.report;
  CUcontext context = nullptr, current = nullptr;
  report.result(cu.cuCtxFromGreenCtx(&context, green), CUDA_SUCCESS, "it is a context as well");
  CUdevResource has{};
  cu.cuGreenCtxGetDevResource(green, &has, CU_DEV_RESOURCE_TYPE_SM);
  report.equal(has.sm.smCount, part.sm.smCount, "it has the SMs that it was made of");
  cu.cuCtxGetDevResource(context, &has, CU_DEV_RESOURCE_TYPE_SM);
  report.equal(has.sm.smCount, part.sm.smCount, "as a context too");
  report.result(cu.cuCtxSetCurrent(context), CUDA_SUCCESS, "it can be made current");
  cu.cuCtxGetCurrent(&current);
  report.check(current == context, "and then is");
  CUgreenCtx of = nullptr;
  cu.cuStreamGetGreenCtx(nullptr, &of);
  report.check(of == green, "the default stream is its own");
  const CUstream stream = bench.stream();
  cu.cuStreamGetGreenCtx(stream, &of);
  report.check(of == green, "as are streams made meanwhile");
  report.result(bench.launch(bench.brief, stream), CUDA_SUCCESS,
                "which run kernels of the primary context");
  report.result(cu.cuStreamDestroy_v2(stream), CUDA_SUCCESS, "and are destroyed");
  cu.cuCtxSetCurrent(bench.context);
}

// A stream of it, used while the primary context is current.
void check_stream(const Bench& bench, CUgreenCtx green) {
  const Driver& cu = bench.cu;
  Report& report = bench.report;
  CUstream stream = nullptr;
  report.result(cu.cuGreenCtxStreamCreate(&stream, green, CU_STREAM_DEFAULT, 0),
                CUDA_ERROR_INVALID_VALUE, "a stream of a green context has to be non-blocking");
  report.result(cu.cuGreenCtxStreamCreate(&stream, green, CU_STREAM_NON_BLOCKING, 0), CUDA_SUCCESS,
                "one that is, is made");
  CUgreenCtx of = nullptr;
  cu.cuStreamGetGreenCtx(stream, &of);
  report.check(of == green, "it knows its green context");
  CUcontext context = nullptr, its = nullptr;
  cu.cuCtxFromGreenCtx(&context, green);
  cu.cuStreamGetCtx(stream, &its);
  report.check(its == context, "and the context that this is");
  const CUstream other = bench.stream();
  cu.cuStreamGetGreenCtx(other, &of);
  report.check(of == nullptr, "other streams have none");

  const CUevent event = bench.event(CU_EVENT_DISABLE_TIMING);
  bench.launch(bench.spin, other);
  cu.cuEventRecord(event, other);
  report.result(cu.cuStreamWaitEvent(stream, event, 0), CUDA_SUCCESS,
                "it waits for an event of another stream");
  report.result(bench.launch(bench.brief, stream), CUDA_SUCCESS, "it takes kernels");
  report.result(cu.cuEventRecord(event, stream), CUDA_SUCCESS, "it records the primary's events");
  report.result(cu.cuStreamWaitEvent(other, event, 0), CUDA_SUCCESS, "and is waited for");
  report.result(cu.cuEventQuery(event), CUDA_ERROR_NOT_READY, "all in their order");
  report.result(cu.cuStreamSynchronize(other), CUDA_SUCCESS, "until all has run");
  report.result(cu.cuStreamQuery(stream), CUDA_SUCCESS, "in both");
  bench.launch(bench.spin, stream);
  report.result(cu.cuCtxSynchronize(), CUDA_SUCCESS, "the primary context waits for it too");
  report.result(cu.cuStreamQuery(stream), CUDA_SUCCESS, "to its end");
  cu.cuEventDestroy_v2(event);
  cu.cuStreamDestroy_v2(other);
  report.result(cu.cuStreamDestroy_v2(stream), CUDA_SUCCESS, "it is destroyed");
}
}  // namespace

void check_green_contexts(const Bench& bench) {
  const Driver& cu = bench.cu;
  Report& report = bench.report;
  CUdevResource part = check_parts(bench);
  CUdevResourceDesc descriptor = nullptr;
  CUgreenCtx green = nullptr;
  cu.cuDevResourceGenerateDesc(&descriptor, &part, 1);
  report.result(cu.cuGreenCtxCreate(&green, descriptor, bench.device, 0), CUDA_ERROR_INVALID_VALUE,
                "a green context must have a default stream");
  report.result(cu.cuGreenCtxCreate(&green, descriptor, bench.device, CU_GREEN_CTX_DEFAULT_STREAM),
                CUDA_SUCCESS, "a green context is made");
  check_context(bench, green, part);
  check_stream(bench, green);
  CUstream left = nullptr;
  cu.cuGreenCtxStreamCreate(&left, green, CU_STREAM_NON_BLOCKING, 0);
  CUcontext context = nullptr;
  unsigned long long id = 0;
  cu.cuCtxFromGreenCtx(&context, green);
  report.result(cu.cuCtxGetId(context, &id), CUDA_SUCCESS, "it has a number, as a context");
  report.result(cu.cuGreenCtxDestroy(green), CUDA_SUCCESS, "it is destroyed");
  report.check(cu.cuCtxGetId(context, &id) != CUDA_SUCCESS, "which it has no longer");
  report.result(cu.cuStreamDestroy_v2(left), CUDA_ERROR_CONTEXT_IS_DESTROYED,
                "a stream that was left is of no use any more");
  report.result(cu.cuCtxSynchronize(), CUDA_SUCCESS, "the primary context goes on");
}

}  // namespace conformance
