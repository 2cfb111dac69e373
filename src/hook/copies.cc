// Copies and sets: not gated, charged by their bytes. One that blocks is waited for like its
// stream, and its time by the host's clock is what it took.
#include "hook/launch_gate.h"

namespace sluice::hook {
namespace {

template <auto is_capturing, typename Copy>
CUresult charged(CUstream stream, CopyKind kind, size_t bytes, Copy&& copy) {
  if (captures<is_capturing>(stream)) return copy();
  const Metering m = metering(device_of_thread());
  if (m.meter == nullptr || bytes == 0) return copy();
  const Work work{stream_itself<is_capturing>(stream), copy_key(kind), bytes};
  const Unit unit = m.meter->begin(m.at, m.thread, work);
  SLUICE_STEP("copy: begun");
  const CUresult result = copy();
  SLUICE_STEP("copy: queued");
  m.meter->end(m.at, work, unit, result == CUDA_SUCCESS);
  return result;
}

// Into the thread's default stream; over when it returns.
template <auto is_capturing, typename Copy>
CUresult waited(CopyKind kind, size_t bytes, Copy&& copy) {
  const Metering m = metering(device_of_thread());
  if (m.meter == nullptr || bytes == 0) return copy();
  const uint64_t begun = sluice_clock(CLOCK_MONOTONIC);
  const CUresult result = [&] {
    const AwaitingDevice awaiting(m);
    return copy();
  }();
  const Work work{stream_itself<is_capturing>(nullptr), copy_key(kind), bytes};
  if (result == CUDA_SUCCESS) has_waited(m.meter->copied(m.at, m.thread, work, begun));
  return result;
}

size_t bytes_of(const CUDA_MEMCPY2D* copy) {
  return copy != nullptr ? copy->WidthInBytes * copy->Height : 0;
}
size_t bytes_of(const CUDA_MEMCPY3D* copy) {
  return copy != nullptr ? copy->WidthInBytes * copy->Height * copy->Depth : 0;
}

}  // namespace
}  // namespace sluice::hook

using sluice::hook::bytes_of;
using sluice::hook::charged;
using sluice::hook::CopyKind;
using sluice::hook::kLegacy;
using sluice::hook::kPerThread;
using sluice::hook::waited;

// A hook for each default stream: the name, the suffix of the other variant, its parameters, the
// same as arguments; then the stream, what is copied where, and how much.
#define SLUICE_CHARGED(name, suffix, parameters, arguments, stream, kind, bytes)           \
  SLUICE_DRIVER(name);                                                                     \
  SLUICE_DRIVER(name##suffix);                                                             \
  SLUICE_EXPORT CUresult name parameters {                                                 \
    return charged<kLegacy>(stream, kind, bytes, [&] { return driver_##name arguments; }); \
  }                                                                                        \
  SLUICE_EXPORT CUresult name##suffix parameters {                                         \
    return charged<kPerThread>(stream, kind, bytes,                                        \
                               [&] { return driver_##name##suffix arguments; });           \
  }
#define SLUICE_WAITED(name, parameters, arguments, kind, bytes)                             \
  SLUICE_DRIVER(name);                                                                      \
  SLUICE_DRIVER(name##_ptds);                                                               \
  SLUICE_EXPORT CUresult name parameters {                                                  \
    return waited<kLegacy>(kind, bytes, [&] { return driver_##name arguments; });           \
  }                                                                                         \
  SLUICE_EXPORT CUresult name##_ptds parameters {                                           \
    return waited<kPerThread>(kind, bytes, [&] { return driver_##name##_ptds arguments; }); \
  }
// A set of so many bytes a value: one row, or several, at once or in a stream.
#define SLUICE_SETS(bits, type)                                                                 \
  SLUICE_CHARGED(cuMemsetD##bits##_v2, _ptds, (CUdeviceptr to, type value, size_t count),       \
                 (to, value, count), nullptr, CopyKind::kSet, count * sizeof value)             \
  SLUICE_CHARGED(cuMemsetD##bits##Async, _ptsz,                                                 \
                 (CUdeviceptr to, type value, size_t count, CUstream stream),                   \
                 (to, value, count, stream), stream, CopyKind::kSet, count * sizeof value)      \
  SLUICE_CHARGED(cuMemsetD2D##bits##_v2, _ptds,                                                 \
                 (CUdeviceptr to, size_t pitch, type value, size_t width, size_t height),       \
                 (to, pitch, value, width, height), nullptr, CopyKind::kSet,                    \
                 width* height * sizeof value)                                                  \
  SLUICE_CHARGED(                                                                               \
      cuMemsetD2D##bits##Async, _ptsz,                                                          \
      (CUdeviceptr to, size_t pitch, type value, size_t width, size_t height, CUstream stream), \
      (to, pitch, value, width, height, stream), stream, CopyKind::kSet,                        \
      width* height * sizeof value)

extern "C" {

SLUICE_WAITED(cuMemcpyHtoD_v2, (CUdeviceptr to, const void* from, size_t bytes), (to, from, bytes),
              CopyKind::kToDevice, bytes)
SLUICE_WAITED(cuMemcpyDtoH_v2, (void* to, CUdeviceptr from, size_t bytes), (to, from, bytes),
              CopyKind::kFromDevice, bytes)

// These may return before they are over, as they do within a device.
SLUICE_CHARGED(cuMemcpy, _ptds, (CUdeviceptr to, CUdeviceptr from, size_t bytes), (to, from, bytes),
               nullptr, CopyKind::kAny, bytes)
SLUICE_CHARGED(cuMemcpyDtoD_v2, _ptds, (CUdeviceptr to, CUdeviceptr from, size_t bytes),
               (to, from, bytes), nullptr, CopyKind::kWithin, bytes)
SLUICE_CHARGED(cuMemcpyPeer, _ptds,
               (CUdeviceptr to, CUcontext there, CUdeviceptr from, CUcontext here, size_t bytes),
               (to, there, from, here, bytes), nullptr, CopyKind::kPeer, bytes)
SLUICE_CHARGED(cuMemcpy2D_v2, _ptds, (const CUDA_MEMCPY2D* copy), (copy), nullptr, CopyKind::kAny,
               bytes_of(copy))
SLUICE_CHARGED(cuMemcpy2DUnaligned_v2, _ptds, (const CUDA_MEMCPY2D* copy), (copy), nullptr,
               CopyKind::kAny, bytes_of(copy))
SLUICE_CHARGED(cuMemcpy3D_v2, _ptds, (const CUDA_MEMCPY3D* copy), (copy), nullptr, CopyKind::kAny,
               bytes_of(copy))

SLUICE_CHARGED(cuMemcpyAsync, _ptsz,
               (CUdeviceptr to, CUdeviceptr from, size_t bytes, CUstream stream),
               (to, from, bytes, stream), stream, CopyKind::kAny, bytes)
SLUICE_CHARGED(cuMemcpyHtoDAsync_v2, _ptsz,
               (CUdeviceptr to, const void* from, size_t bytes, CUstream stream),
               (to, from, bytes, stream), stream, CopyKind::kToDevice, bytes)
SLUICE_CHARGED(cuMemcpyDtoHAsync_v2, _ptsz,
               (void* to, CUdeviceptr from, size_t bytes, CUstream stream),
               (to, from, bytes, stream), stream, CopyKind::kFromDevice, bytes)
SLUICE_CHARGED(cuMemcpyDtoDAsync_v2, _ptsz,
               (CUdeviceptr to, CUdeviceptr from, size_t bytes, CUstream stream),
               (to, from, bytes, stream), stream, CopyKind::kWithin, bytes)
SLUICE_CHARGED(cuMemcpyPeerAsync, _ptsz,
               (CUdeviceptr to, CUcontext there, CUdeviceptr from, CUcontext here, size_t bytes,
                CUstream stream),
               (to, there, from, here, bytes, stream), stream, CopyKind::kPeer, bytes)
SLUICE_CHARGED(cuMemcpy2DAsync_v2, _ptsz, (const CUDA_MEMCPY2D* copy, CUstream stream),
               (copy, stream), stream, CopyKind::kAny, bytes_of(copy))
SLUICE_CHARGED(cuMemcpy3DAsync_v2, _ptsz, (const CUDA_MEMCPY3D* copy, CUstream stream),
               (copy, stream), stream, CopyKind::kAny, bytes_of(copy))

SLUICE_SETS(8, unsigned char)
SLUICE_SETS(16, unsigned short)
SLUICE_SETS(32, unsigned)

}  // extern "C"
