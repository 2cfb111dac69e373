// Events: a place in a stream, and when it was reached on the device's clock.
#include "tests/emulator/capture.h"
#include "tests/emulator/driver.h"

using namespace sluice::emulator;

namespace {
// Refuses to query an event while that could break a capture, or if its last record was captured.
CUresult may_look(Driver& driver, const Event* event) {
  if (event == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  if (event->capture != nullptr) {
    event->capture->invalid = true;
    return CUDA_ERROR_CAPTURED_EVENT;
  }
  if (event->capture_ended) return CUDA_ERROR_INVALID_VALUE;
  return unsafe_call(driver);
}

CUresult record(const char* function, CUevent handle, CUstream stream_handle, DefaultStream which) {
  Call call(function);
  if (call.refused() != CUDA_SUCCESS) return call.refused();
  Event* event = call.driver().events.find(handle);
  Stream* stream = stream_of(call, stream_handle, which);
  if (stream == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  if (event == nullptr || event->context != stream->context) return CUDA_ERROR_INVALID_HANDLE;
  if (stream->capture != nullptr) {
    if (stream->capture->invalid) return CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
    capture_record(*stream, *event);
    return CUDA_SUCCESS;
  }
  event->capture.reset();
  event->capture_ended = false;
  return call.submit(*stream, 1,
                     [&](DeviceModel& device) { device.record(stream->model, event->model); });
}

CUresult elapsed(const char* function, float* milliseconds, CUevent start, CUevent end) {
  Call call(function);
  if (call.refused() != CUDA_SUCCESS) return call.refused();
  Driver& driver = call.driver();
  const Event *from = driver.events.find(start), *to = driver.events.find(end);
  if (milliseconds == nullptr) return CUDA_ERROR_INVALID_VALUE;
  for (const Event* event : {from, to})
    if (const CUresult result = may_look(driver, event); result != CUDA_SUCCESS) return result;
  if (((from->flags | to->flags) & CU_EVENT_DISABLE_TIMING) != 0) return CUDA_ERROR_INVALID_HANDLE;
  Machine::Lock lock(*driver.machine);
  const auto begin = call.model(lock, from->context->device).recorded(from->model);
  const auto finish = call.model(lock, to->context->device).recorded(to->model);
  if (!begin.ever || !finish.ever) return CUDA_ERROR_INVALID_HANDLE;
  if (!begin.done || !finish.done) return CUDA_ERROR_NOT_READY;
  *milliseconds = static_cast<float>(static_cast<double>(finish.when - begin.when) / 1e6);
  return CUDA_SUCCESS;
}
}  // namespace

CUresult cuEventCreate(CUevent* event, unsigned flags) {
  Call call(__func__);
  if (call.refused() != CUDA_SUCCESS) return call.refused();
  const bool between = (flags & CU_EVENT_INTERPROCESS) != 0;
  const bool timed = (flags & CU_EVENT_DISABLE_TIMING) == 0;
  if (event == nullptr || flags > 7 || (between && timed)) return CUDA_ERROR_INVALID_VALUE;
  Driver& driver = call.driver();
  auto made = std::make_unique<Event>();
  made->context = call.context();
  made->flags = flags;
  {
    Machine::Lock lock(*driver.machine);
    const std::uint32_t device = driver.in_machine(made->context->device);
    const std::uint32_t client = lock->processes[driver.process].client[device];
    made->model = find_room(*lock, driver.machine->memory_file(),
                            [&] { return lock->devices[device].open_event(client); });
  }
  if (made->model == DeviceModel::kNone) return CUDA_ERROR_OUT_OF_MEMORY;
  *event = reinterpret_cast<CUevent>(driver.events.add(std::move(made)));
  return CUDA_SUCCESS;
}

CUresult cuEventDestroy_v2(CUevent handle) {
  Call call(__func__);
  if (call.refused() != CUDA_SUCCESS) return call.refused();
  Driver& driver = call.driver();
  Event* event = driver.events.find(handle);
  if (event == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  {
    Machine::Lock lock(*driver.machine);
    call.model(lock, event->context->device).close_event(event->model);
  }
  driver.events.remove(event);
  return CUDA_SUCCESS;
}

SLUICE_BOTH(cuEventRecord, _ptsz, (CUevent event, CUstream stream),
            { return record(__func__, event, stream, which); })
SLUICE_BOTH(cuEventRecordWithFlags, _ptsz, (CUevent event, CUstream stream, unsigned),
            { return record(__func__, event, stream, which); })

CUresult cuEventQuery(CUevent handle) {
  Call call(__func__);
  if (call.refused() != CUDA_SUCCESS) return call.refused();
  const Event* event = call.driver().events.find(handle);
  if (const CUresult result = may_look(call.driver(), event); result != CUDA_SUCCESS) return result;
  Machine::Lock lock(*call.driver().machine);
  const auto recorded = call.model(lock, event->context->device).recorded(event->model);
  return recorded.ever && !recorded.done ? CUDA_ERROR_NOT_READY : CUDA_SUCCESS;
}

CUresult cuEventSynchronize(CUevent handle) {
  Call call(__func__);
  if (call.refused() != CUDA_SUCCESS) return call.refused();
  const Event* event = call.driver().events.find(handle);
  if (const CUresult result = may_look(call.driver(), event); result != CUDA_SUCCESS) return result;
  DeviceModel::Recorded recorded{};
  {
    Machine::Lock lock(*call.driver().machine);
    recorded = call.model(lock, event->context->device).recorded(event->model);
  }
  if (!recorded.ever) return CUDA_SUCCESS;
  return call.wait(event->context,
                   [&](DeviceModel& device) { return device.reached(recorded.at); });
}

CUresult cuEventElapsedTime(float* milliseconds, CUevent start, CUevent end) {
  return elapsed(__func__, milliseconds, start, end);
}
CUresult cuEventElapsedTime_v2(float* milliseconds, CUevent start, CUevent end) {
  return elapsed(__func__, milliseconds, start, end);
}
