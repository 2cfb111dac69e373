// Copies and sets. The bytes move at once; the time that it takes passes in the stream. A program
// that waits as it should sees no difference. Within graphs only the time passes.
#include <algorithm>
#include <cstring>

#include "tests/emulator/capture.h"
#include "tests/emulator/graph_memory.h"
#include "tests/emulator/ranges.h"

using namespace sluice::emulator;

namespace {
enum class Wait { kNo, kYes };

// Rows of bytes, from one place to another.
struct Copy {
  char* to;
  const char* from;
  std::size_t width, height = 1, to_pitch = 0, from_pitch = 0;
};

// The stream of a copy or a set. While it captures, memory that its graph will allocate may be
// named.
struct Place {
  CUstream stream;
  DefaultStream which;
};

bool of_device(Call& call, const void* at, std::size_t bytes, const Place& place) {
  Ranges& ranges = call.driver().ranges;
  const auto address = reinterpret_cast<std::uint64_t>(at);
  const auto found = range_with(ranges, address);
  if (found != ranges.end())
    return found->second.kind != RangeKind::kHost && found->second.accessible &&
           address + bytes <= found->first + found->second.bytes;
  const Stream* stream = stream_of(call, place.stream, place.which);
  return stream != nullptr && stream->capture != nullptr &&
         is_graph_memory(call.driver(), address, bytes);
}

// Mapped to be read alone. (A kernel that wrote there would fault; emulated ones write nothing.)
bool read_only(const Call& call, const void* at) {
  Ranges& ranges = call.driver().ranges;
  const auto found = range_with(ranges, reinterpret_cast<std::uint64_t>(at));
  return found != ranges.end() && !found->second.writable;
}

template <typename F>
CUresult pass(Call& call, CUstream handle, DefaultStream which, Wait wait, CUgraphNodeType type,
              Engine engine, std::uint64_t bytes, F&& move) {
  Stream* stream = stream_of(call, handle, which);
  if (stream == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  if (wait == Wait::kYes)
    if (const CUresult result = unsafe_call(call.driver()); result != CUDA_SUCCESS) return result;
  Node node;
  node.type = type;
  node.engine = engine;
  node.bytes = bytes;
  CUresult result = CUDA_SUCCESS;
  if (capture(call.driver(), *stream, std::move(node), result) != Captured::kNo) return result;
  move();
  Ticket end;
  result = call.submit(*stream, 1, [&](DeviceModel& device) {
    device.copy(stream->model, engine, bytes);
    end = device.end_of(stream->model);
  });
  if (result != CUDA_SUCCESS || wait == Wait::kNo) return result;
  return call.wait(stream->context, [&](DeviceModel& device) { return device.reached(end); });
}

CUresult copy(const char* function, const Copy& asked, CUstream stream, DefaultStream which,
              Wait wait) {
  Call call(function);
  if (call.refused() != CUDA_SUCCESS) return call.refused();
  const std::size_t bytes = asked.width * asked.height;
  if (bytes == 0) return CUDA_SUCCESS;
  const bool to = of_device(call, asked.to, asked.width, {stream, which});
  const bool from = of_device(call, asked.from, asked.width, {stream, which});
  if (asked.to == nullptr || asked.from == nullptr || read_only(call, asked.to))
    return CUDA_ERROR_INVALID_VALUE;
  const Engine engine = to && from ? Engine::kWithin : to ? Engine::kToDevice : Engine::kFromDevice;
  return pass(call, stream, which, wait, CU_GRAPH_NODE_TYPE_MEMCPY, engine, bytes, [&] {
    for (std::size_t row = 0; row < asked.height; ++row)
      std::memmove(asked.to + row * asked.to_pitch, asked.from + row * asked.from_pitch,
                   asked.width);
  });
}

// Copies between the host and the device; `on_device` must lie on the device.
CUresult copy_device(const char* function, CUdeviceptr on_device, const Copy& asked,
                     CUstream stream, DefaultStream which, Wait wait) {
  {
    Call call(function);
    if (call.refused() != CUDA_SUCCESS) return call.refused();
    if (!of_device(call, pointer_to(on_device), asked.width, {stream, which}))
      return CUDA_ERROR_INVALID_VALUE;
  }
  return copy(function, asked, stream, which, wait);
}

template <typename T>
CUresult set(const char* function, CUdeviceptr to, T value, std::size_t count, CUstream stream,
             DefaultStream which, Wait wait) {
  Call call(function);
  if (call.refused() != CUDA_SUCCESS) return call.refused();
  auto* at = reinterpret_cast<T*>(pointer_to(to));
  if (count == 0) return CUDA_SUCCESS;
  if (to % sizeof(T) != 0 || !of_device(call, at, count * sizeof(T), {stream, which}) ||
      read_only(call, at))
    return CUDA_ERROR_INVALID_VALUE;
  return pass(call, stream, which, wait, CU_GRAPH_NODE_TYPE_MEMSET, Engine::kWithin,
              count * sizeof(T), [&] { std::fill_n(at, count, value); });
}

char* pointer(CUdeviceptr at) {
  return pointer_to(at);
}
char* pointer(const void* at) {
  return static_cast<char*>(const_cast<void*>(at));
}

// A plane of a copy; false: arrays, which are not emulated.
template <typename T>
bool plane_of(const T& asked, std::size_t z, Copy& out) {
  if (asked.srcMemoryType == CU_MEMORYTYPE_ARRAY || asked.dstMemoryType == CU_MEMORYTYPE_ARRAY)
    return false;
  const bool from_host = asked.srcMemoryType == CU_MEMORYTYPE_HOST;
  const bool to_host = asked.dstMemoryType == CU_MEMORYTYPE_HOST;
  char* from = from_host ? pointer(asked.srcHost) : pointer(asked.srcDevice);
  char* to = to_host ? pointer(asked.dstHost) : pointer(asked.dstDevice);
  out = {to + asked.dstY * asked.dstPitch + asked.dstXInBytes,
         from + asked.srcY * asked.srcPitch + asked.srcXInBytes,
         asked.WidthInBytes,
         asked.Height,
         asked.dstPitch,
         asked.srcPitch};
  if constexpr (requires { asked.Depth; }) {
    out.to += (asked.dstZ + z) * asked.dstHeight * asked.dstPitch;
    out.from += (asked.srcZ + z) * asked.srcHeight * asked.srcPitch;
  }
  return true;
}

template <typename T>
CUresult copy_planes(const char* function, const T* asked, std::size_t planes, CUstream stream,
                     DefaultStream which, Wait wait) {
  for (std::size_t z = 0; z < planes; ++z) {
    Copy plane{};
    if (!plane_of(*asked, z, plane)) return CUDA_ERROR_NOT_SUPPORTED;
    const CUresult result = copy(function, plane, stream, which, wait);
    if (result != CUDA_SUCCESS) return result;
  }
  return CUDA_SUCCESS;
}
}  // namespace

SLUICE_BOTH(cuMemcpy, _ptds, (CUdeviceptr to, CUdeviceptr from, size_t bytes), {
  return copy(__func__, {pointer(to), pointer(from), bytes}, nullptr, which, Wait::kYes);
})
SLUICE_BOTH(cuMemcpyHtoD_v2, _ptds, (CUdeviceptr to, const void* from, size_t bytes), {
  return copy_device(__func__, to, {pointer(to), pointer(from), bytes}, nullptr, which, Wait::kYes);
})
SLUICE_BOTH(cuMemcpyDtoH_v2, _ptds, (void* to, CUdeviceptr from, size_t bytes), {
  return copy_device(__func__, from, {pointer(to), pointer(from), bytes}, nullptr, which,
                     Wait::kYes);
})
SLUICE_BOTH(cuMemcpyDtoD_v2, _ptds, (CUdeviceptr to, CUdeviceptr from, size_t bytes), {
  return copy_device(__func__, to, {pointer(to), pointer(from), bytes}, nullptr, which, Wait::kNo);
})
SLUICE_BOTH(cuMemcpyAsync, _ptsz, (CUdeviceptr to, CUdeviceptr from, size_t bytes, CUstream stream),
            {
              return copy(__func__, {pointer(to), pointer(from), bytes}, stream, which, Wait::kNo);
            })
SLUICE_BOTH(cuMemcpyHtoDAsync_v2, _ptsz,
            (CUdeviceptr to, const void* from, size_t bytes, CUstream stream), {
              return copy_device(__func__, to, {pointer(to), pointer(from), bytes}, stream, which,
                                 Wait::kNo);
            })
SLUICE_BOTH(cuMemcpyDtoHAsync_v2, _ptsz,
            (void* to, CUdeviceptr from, size_t bytes, CUstream stream), {
              return copy_device(__func__, from, {pointer(to), pointer(from), bytes}, stream, which,
                                 Wait::kNo);
            })
SLUICE_BOTH(cuMemcpyDtoDAsync_v2, _ptsz,
            (CUdeviceptr to, CUdeviceptr from, size_t bytes, CUstream stream), {
              return copy_device(__func__, to, {pointer(to), pointer(from), bytes}, stream, which,
                                 Wait::kNo);
            })
SLUICE_BOTH(cuMemcpy2D_v2, _ptds, (const CUDA_MEMCPY2D* asked), {
  if (asked == nullptr) return CUDA_ERROR_INVALID_VALUE;
  return copy_planes(__func__, asked, 1, nullptr, which, Wait::kYes);
})
SLUICE_BOTH(cuMemcpy2DAsync_v2, _ptsz, (const CUDA_MEMCPY2D* asked, CUstream stream), {
  if (asked == nullptr) return CUDA_ERROR_INVALID_VALUE;
  return copy_planes(__func__, asked, 1, stream, which, Wait::kNo);
})
SLUICE_BOTH(cuMemcpy3D_v2, _ptds, (const CUDA_MEMCPY3D* asked), {
  if (asked == nullptr) return CUDA_ERROR_INVALID_VALUE;
  return copy_planes(__func__, asked, asked->Depth, nullptr, which, Wait::kYes);
})
SLUICE_BOTH(cuMemcpy3DAsync_v2, _ptsz, (const CUDA_MEMCPY3D* asked, CUstream stream), {
  if (asked == nullptr) return CUDA_ERROR_INVALID_VALUE;
  return copy_planes(__func__, asked, asked->Depth, stream, which, Wait::kNo);
})

SLUICE_BOTH(cuMemsetD8_v2, _ptds, (CUdeviceptr to, unsigned char value, size_t count),
            { return set(__func__, to, value, count, nullptr, which, Wait::kNo); })
SLUICE_BOTH(cuMemsetD16_v2, _ptds, (CUdeviceptr to, unsigned short value, size_t count),
            { return set(__func__, to, value, count, nullptr, which, Wait::kNo); })
SLUICE_BOTH(cuMemsetD32_v2, _ptds, (CUdeviceptr to, unsigned value, size_t count),
            { return set(__func__, to, value, count, nullptr, which, Wait::kNo); })
SLUICE_BOTH(cuMemsetD8Async, _ptsz,
            (CUdeviceptr to, unsigned char value, size_t count, CUstream stream),
            { return set(__func__, to, value, count, stream, which, Wait::kNo); })
SLUICE_BOTH(cuMemsetD16Async, _ptsz,
            (CUdeviceptr to, unsigned short value, size_t count, CUstream stream),
            { return set(__func__, to, value, count, stream, which, Wait::kNo); })
SLUICE_BOTH(cuMemsetD32Async, _ptsz,
            (CUdeviceptr to, unsigned value, size_t count, CUstream stream),
            { return set(__func__, to, value, count, stream, which, Wait::kNo); })
