// Streams: made, waited for, made to wait for events, captured.
#include "tests/emulator/capture.h"
#include "tests/emulator/driver.h"

using namespace sluice::emulator;

namespace sluice::emulator {

Stream* make_stream(Call& call, Context& context, StreamKind kind, unsigned flags, int priority) {
  Driver& driver = call.driver();
  const std::uint32_t device = driver.in_machine(context.device);
  auto stream = std::make_unique<Stream>();
  stream->context = &context;
  stream->kind = kind;
  stream->flags = flags;
  stream->priority = priority;
  {
    Machine::Lock lock(*driver.machine);
    const std::uint32_t client = lock->processes[driver.process].client[device];
    stream->model = find_room(*lock, driver.machine->memory_file(), [&] {
      return lock->devices[device].open_stream(client, context.group, kind);
    });
  }
  return stream->model == DeviceModel::kNone ? nullptr : driver.streams.add(std::move(stream));
}

Stream* stream_of(Call& call, CUstream handle, DefaultStream which) {
  Driver& driver = call.driver();
  const bool own =
      handle == CU_STREAM_PER_THREAD || (handle == nullptr && which == DefaultStream::kPerThread);
  if (!own && (handle == nullptr || handle == CU_STREAM_LEGACY))
    return driver.legacy.at(call.context());
  if (!own) return driver.streams.find(handle);
  Stream*& mine = driver.per_thread[{call.context(), thread_id()}];
  if (mine == nullptr)
    mine = make_stream(call, *call.context(), StreamKind::kBlocking, CU_STREAM_DEFAULT, 0);
  return mine;
}

}  // namespace sluice::emulator

namespace {
// A call that needs a stream alone.
CUresult find(Call& call, CUstream handle, DefaultStream which, Stream** stream) {
  if (call.refused() != CUDA_SUCCESS) return call.refused();
  *stream = stream_of(call, handle, which);
  return *stream == nullptr ? CUDA_ERROR_INVALID_HANDLE : CUDA_SUCCESS;
}

// Refuses to query a stream that captures, or any stream while a capture forbids such calls.
CUresult find_to_look_at(Call& call, CUstream handle, DefaultStream which, Stream** stream) {
  CUresult result = find(call, handle, which, stream);
  if (result == CUDA_SUCCESS) result = refuse_if_capturing(**stream);
  return result == CUDA_SUCCESS ? unsafe_call(call.driver()) : result;
}

// What `of` says of a stream.
template <typename T, typename F>
CUresult tell(const char* function, CUstream handle, DefaultStream which, T* answer, F&& of) {
  Call call(function);
  Stream* stream = nullptr;
  if (const CUresult result = find(call, handle, which, &stream); result != CUDA_SUCCESS)
    return result;
  if (answer == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *answer = of(*stream);
  return CUDA_SUCCESS;
}

CUresult get_capture_info(const char* function, CUstream handle, DefaultStream which,
                          CUstreamCaptureStatus* status, uint64_t* id, CUgraph* graph,
                          const CUgraphNode** dependencies, size_t* count) {
  Call call(function);
  Stream* stream = nullptr;
  if (const CUresult result = find(call, handle, which, &stream); result != CUDA_SUCCESS)
    return result;
  if (status == nullptr) return CUDA_ERROR_INVALID_VALUE;
  if (stream->capture == nullptr) {
    *status = CU_STREAM_CAPTURE_STATUS_NONE;
    return CUDA_SUCCESS;
  }
  *status = stream->capture->invalid ? CU_STREAM_CAPTURE_STATUS_INVALIDATED
                                     : CU_STREAM_CAPTURE_STATUS_ACTIVE;
  if (id != nullptr) *id = stream->capture->id;
  if (graph != nullptr) *graph = reinterpret_cast<CUgraph>(stream->capture->graph.get());
  if (dependencies != nullptr)
    *dependencies = reinterpret_cast<const CUgraphNode*>(stream->frontier.data());
  if (count != nullptr) *count = stream->frontier.size();
  return CUDA_SUCCESS;
}
}  // namespace

CUresult cuStreamCreateWithPriority(CUstream* stream, unsigned flags, int priority) {
  Call call(__func__);
  if (call.refused() != CUDA_SUCCESS) return call.refused();
  if (stream == nullptr || flags > CU_STREAM_NON_BLOCKING) return CUDA_ERROR_INVALID_VALUE;
  const StreamKind kind =
      flags == CU_STREAM_NON_BLOCKING ? StreamKind::kNonBlocking : StreamKind::kBlocking;
  Stream* made = make_stream(call, *call.context(), kind, flags, priority);
  if (made == nullptr) return CUDA_ERROR_OUT_OF_MEMORY;
  *stream = reinterpret_cast<CUstream>(made);
  return CUDA_SUCCESS;
}
CUresult cuStreamCreate(CUstream* stream, unsigned flags) {
  return cuStreamCreateWithPriority(stream, flags, 0);
}

CUresult cuStreamDestroy_v2(CUstream handle) {
  Call call(__func__);
  if (call.refused() != CUDA_SUCCESS) return call.refused();
  Driver& driver = call.driver();
  Stream* stream = driver.streams.find(handle);
  if (stream == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  if (stream->capture != nullptr) stream->capture->invalid = true;
  {
    Machine::Lock lock(*driver.machine);
    call.model(lock, stream->context->device).close_stream(stream->model);
  }
  driver.streams.remove(stream);
  return CUDA_SUCCESS;
}

SLUICE_BOTH(cuStreamGetFlags, _ptsz, (CUstream handle, unsigned* flags), {
  return tell(__func__, handle, which, flags, [](const Stream& s) { return s.flags; });
})

SLUICE_BOTH(cuStreamGetPriority, _ptsz, (CUstream handle, int* priority), {
  return tell(__func__, handle, which, priority, [](const Stream& s) { return s.priority; });
})

SLUICE_BOTH(cuStreamGetCtx, _ptsz, (CUstream handle, CUcontext* context), {
  return tell(__func__, handle, which, context,
              [](const Stream& s) { return reinterpret_cast<CUcontext>(s.context); });
})

SLUICE_BOTH(cuStreamQuery, _ptsz, (CUstream handle), {
  Call call(__func__);
  Stream* stream = nullptr;
  const CUresult result = find_to_look_at(call, handle, which, &stream);
  if (result != CUDA_SUCCESS) return result;
  Machine::Lock lock(*call.driver().machine);
  return call.model(lock, stream->context->device).queued(stream->model) == 0
             ? CUDA_SUCCESS
             : CUDA_ERROR_NOT_READY;
})

SLUICE_BOTH(cuStreamSynchronize, _ptsz, (CUstream handle), {
  Call call(__func__);
  Stream* stream = nullptr;
  const CUresult result = find_to_look_at(call, handle, which, &stream);
  if (result != CUDA_SUCCESS) return result;
  Ticket end;
  {
    Machine::Lock lock(*call.driver().machine);
    end = call.model(lock, stream->context->device).end_of(stream->model);
  }
  return call.wait(stream->context, [&](DeviceModel& device) { return device.reached(end); });
})

CUresult cuCtxSynchronize() {
  Call call(__func__);
  if (call.refused() != CUDA_SUCCESS) return call.refused();
  Driver& driver = call.driver();
  if (const CUresult result = unsafe_call(driver); result != CUDA_SUCCESS) return result;
  std::vector<Ticket> ends;
  {
    Machine::Lock lock(*driver.machine);
    driver.streams.for_each([&](const Stream& stream) {
      if (stream.context == call.context())
        ends.push_back(call.model(lock, stream.context->device).end_of(stream.model));
    });
  }
  return call.wait(call.context(), [&](DeviceModel& device) {
    for (const Ticket& end : ends)
      if (!device.reached(end)) return false;
    return true;
  });
}

SLUICE_BOTH(cuStreamWaitEvent, _ptsz, (CUstream handle, CUevent event_handle, unsigned), {
  Call call(__func__);
  Stream* stream = nullptr;
  if (const CUresult result = find(call, handle, which, &stream); result != CUDA_SUCCESS)
    return result;
  Event* event = call.driver().events.find(event_handle);
  if (event == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  if (stream->capture != nullptr || event->capture != nullptr) return capture_wait(*stream, *event);
  return call.submit(*stream, 1, [&](DeviceModel& device) {
    if (const auto recorded = device.recorded(event->model); recorded.ever)
      device.wait(stream->model, recorded.at);
  });
})

SLUICE_BOTH(cuStreamBeginCapture_v2, _ptsz, (CUstream handle, CUstreamCaptureMode mode), {
  Call call(__func__);
  Stream* stream = nullptr;
  if (const CUresult result = find(call, handle, which, &stream); result != CUDA_SUCCESS)
    return result;
  return begin_capture(call.driver(), *stream, mode);
})

SLUICE_BOTH(cuStreamEndCapture, _ptsz, (CUstream handle, CUgraph* graph), {
  Call call(__func__);
  Stream* stream = nullptr;
  if (const CUresult result = find(call, handle, which, &stream); result != CUDA_SUCCESS)
    return result;
  if (graph == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *graph = nullptr;
  std::unique_ptr<Graph> made;
  const CUresult result = end_capture(call.driver(), *stream, made);
  if (result == CUDA_SUCCESS)
    *graph = reinterpret_cast<CUgraph>(call.driver().graphs.add(std::move(made)));
  return result;
})

SLUICE_BOTH(cuStreamIsCapturing, _ptsz, (CUstream handle, CUstreamCaptureStatus* status), {
  return get_capture_info(__func__, handle, which, status, nullptr, nullptr, nullptr, nullptr);
})

SLUICE_BOTH(cuStreamGetCaptureInfo_v2, _ptsz,
            (CUstream handle, CUstreamCaptureStatus* status, uint64_t* id, CUgraph* graph,
             const CUgraphNode** dependencies, size_t* count),
            {
              return get_capture_info(__func__, handle, which, status, id, graph, dependencies,
                                      count);
            })

SLUICE_BOTH(cuStreamGetCaptureInfo_v3, _ptsz,
            (CUstream handle, CUstreamCaptureStatus* status, uint64_t* id, CUgraph* graph,
             const CUgraphNode** dependencies, const CUgraphEdgeData** edges, size_t* count),
            {
              if (edges != nullptr) *edges = nullptr;
              return get_capture_info(__func__, handle, which, status, id, graph, dependencies,
                                      count);
            })

CUresult cuThreadExchangeStreamCaptureMode(CUstreamCaptureMode* mode) {
  const Call call(__func__, Call::kDriver);
  if (call.refused() != CUDA_SUCCESS) return call.refused();
  if (mode == nullptr || *mode < 0 || *mode > CU_STREAM_CAPTURE_MODE_RELAXED)
    return CUDA_ERROR_INVALID_VALUE;
  std::swap(*mode, capture_mode_of_thread());
  return CUDA_SUCCESS;
}
