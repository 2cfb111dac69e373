// Arrays, also mipmapped ones: memory that is charged and ends with its context, and nothing else.
// Their elements and levels cannot be accessed. A handle is the address where the memory would be.
#include <algorithm>
#include <bit>

#include "tests/emulator/ranges.h"

using namespace sluice::emulator;

namespace {
std::size_t bytes_of_channel(CUarray_format format) {
  switch (format) {
    case CU_AD_FORMAT_UNSIGNED_INT8:
    case CU_AD_FORMAT_SIGNED_INT8:
      return 1;
    case CU_AD_FORMAT_UNSIGNED_INT16:
    case CU_AD_FORMAT_SIGNED_INT16:
    case CU_AD_FORMAT_HALF:
      return 2;
    case CU_AD_FORMAT_UNSIGNED_INT32:
    case CU_AD_FORMAT_SIGNED_INT32:
    case CU_AD_FORMAT_FLOAT:
      return 4;
    default:
      return 0;
  }
}

// Of CUarray or CUmipmappedArray; `elements`: those of all its levels.
template <class Array>
CUresult make_array(const char* function, Array* array, std::size_t elements, CUarray_format format,
                    unsigned channels) {
  const bool good = array != nullptr && elements > 0 && bytes_of_channel(format) > 0 &&
                    (channels == 1 || channels == 2 || channels == 4);
  if (!good) return CUDA_ERROR_INVALID_VALUE;
  CUdeviceptr at = 0;
  const CUresult result = allocate_range(function, RangeKind::kArray, &at,
                                         elements * bytes_of_channel(format) * channels);
  if (result == CUDA_SUCCESS) *array = reinterpret_cast<Array>(pointer_to(at));
  return result;
}

CUresult destroy_array(const char* function, void* array) {
  Call call(function);
  if (call.refused() != CUDA_SUCCESS) return call.refused();
  const CUresult result = free_range(call, reinterpret_cast<std::uint64_t>(array),
                                     RangeKind::kArray, RangeKind::kArray);
  return result == CUDA_SUCCESS ? result : CUDA_ERROR_INVALID_HANDLE;
}

// Each level halves every extent, down to one element.
std::size_t halved(std::size_t extent, unsigned times) {
  return std::max<std::size_t>(extent >> times, 1);
}
std::size_t elements_of(const CUDA_ARRAY3D_DESCRIPTOR_v2& shape, unsigned levels) {
  std::size_t all = 0;
  for (unsigned level = 0; shape.Width > 0 && level < levels; ++level)
    all += halved(shape.Width, level) * halved(shape.Height, level) * halved(shape.Depth, level);
  return all;
}
}  // namespace

CUresult cuArrayCreate_v2(CUarray* array, const CUDA_ARRAY_DESCRIPTOR_v2* shape) {
  if (shape == nullptr) return CUDA_ERROR_INVALID_VALUE;
  return make_array(__func__, array, shape->Width * std::max<std::size_t>(shape->Height, 1),
                    shape->Format, shape->NumChannels);
}

CUresult cuArray3DCreate_v2(CUarray* array, const CUDA_ARRAY3D_DESCRIPTOR_v2* shape) {
  if (shape == nullptr) return CUDA_ERROR_INVALID_VALUE;
  if (shape->Flags != 0) return CUDA_ERROR_NOT_SUPPORTED;
  return make_array(__func__, array, elements_of(*shape, 1), shape->Format, shape->NumChannels);
}

CUresult cuArrayDestroy(CUarray array) {
  return destroy_array(__func__, array);
}

// As many levels as are asked for, and as there are until all extents are 1.
CUresult cuMipmappedArrayCreate(CUmipmappedArray* array, const CUDA_ARRAY3D_DESCRIPTOR_v2* shape,
                                unsigned levels) {
  if (shape == nullptr) return CUDA_ERROR_INVALID_VALUE;
  if (shape->Flags != 0) return CUDA_ERROR_NOT_SUPPORTED;
  const auto most =
      static_cast<unsigned>(std::bit_width(std::max({shape->Width, shape->Height, shape->Depth})));
  levels = std::min(std::max(levels, 1U), most);
  return make_array(__func__, array, elements_of(*shape, levels), shape->Format,
                    shape->NumChannels);
}

CUresult cuMipmappedArrayDestroy(CUmipmappedArray array) {
  return destroy_array(__func__, array);
}
