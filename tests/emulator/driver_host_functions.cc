// Functions of the program's in streams (host_functions.h).
#include <signal.h>

#include <thread>

#include "tests/emulator/capture.h"
#include "tests/emulator/driver.h"
#include "wire/permit_nap.h"

using namespace sluice::emulator;

namespace sluice::emulator {
namespace {
constexpr std::uint64_t kLookNs = 20'000;
thread_local bool runs_one = false;
}  // namespace

bool HostFunctions::running() {
  return runs_one;
}

void HostFunctions::add(Driver& driver, DeviceModel& device, std::uint32_t stream,
                        HostFunction function) {
  function.place = device.hold(stream);
  waiting_.push_back(function);
  some_.notify_one();
  if (has_thread_) return;
  has_thread_ = true;
  sigset_t all, before;  // the program's signals are its own threads'
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  std::thread([this, &driver] { run(driver); }).detach();
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
}

// The first function that the device has reached, or will never reach.
bool HostFunctions::take_next(Driver& driver, HostFunction* next, CUresult* status) {
  std::unique_lock process(driver.mutex);
  some_.wait(process, [&] { return !waiting_.empty(); });
  const Machine::Lock lock(*driver.machine);
  for (auto at = waiting_.begin(); at != waiting_.end(); ++at) {
    const DeviceModel& device = lock->devices[at->device];
    const bool holds = device.holds(at->place);
    if (!holds && !device.reached(at->place)) continue;
    *next = *at;
    *status = holds ? CUDA_SUCCESS : CUDA_ERROR_LAUNCH_FAILED;
    waiting_.erase(at);
    return true;
  }
  return false;
}

void HostFunctions::run(Driver& driver) {
  runs_one = true;
  for (;;) {
    HostFunction next;
    CUresult status = CUDA_SUCCESS;
    if (!take_next(driver, &next, &status)) {
      sluice_nap(kLookNs);
      continue;
    }
    if (next.callback != nullptr)
      next.callback(next.stream, status, next.user);
    else if (status == CUDA_SUCCESS)
      next.function(next.user);
    const Machine::Lock lock(*driver.machine);
    lock->devices[next.device].release(next.place);
  }
}

}  // namespace sluice::emulator

namespace {
CUresult submit(Call& call, Stream& stream, HostFunction function) {
  function.device = call.driver().in_machine(stream.context->device);
  return call.submit(stream, 1, [&](DeviceModel& device) {
    call.driver().host_functions.add(call.driver(), device, stream.model, function);
  });
}
}  // namespace

SLUICE_BOTH(cuLaunchHostFunc, _ptsz, (CUstream handle, CUhostFn function, void* user), {
  Call call(__func__);
  if (call.refused() != CUDA_SUCCESS) return call.refused();
  Stream* stream = stream_of(call, handle, which);
  if (stream == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  if (function == nullptr) return CUDA_ERROR_INVALID_VALUE;
  Node node;
  node.type = CU_GRAPH_NODE_TYPE_HOST;
  node.host = function;
  node.user = user;
  CUresult result = CUDA_SUCCESS;
  if (capture(call.driver(), *stream, std::move(node), result) != Captured::kNo) return result;
  return submit(call, *stream, {.function = function, .user = user});
})

SLUICE_BOTH(cuStreamAddCallback, _ptsz,
            (CUstream handle, CUstreamCallback callback, void* user, unsigned flags), {
              Call call(__func__);
              if (call.refused() != CUDA_SUCCESS) return call.refused();
              Stream* stream = stream_of(call, handle, which);
              if (stream == nullptr) return CUDA_ERROR_INVALID_HANDLE;
              if (callback == nullptr || flags != 0) return CUDA_ERROR_INVALID_VALUE;
              const CUresult result = refuse_if_capturing(*stream);
              if (result != CUDA_SUCCESS) return result;
              return submit(call, *stream, {.callback = callback, .stream = handle, .user = user});
            })
