// Arrays: memory that counts and goes with its context, and nothing else. Their elements cannot be
// reached. A handle is the address where the memory would be.
#include <algorithm>

#include "emulator/ranges.h"

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

CUresult make_array(const char* function, CUarray* array, std::size_t width, std::size_t rows,
                    CUarray_format format, unsigned channels) {
  const bool good = array != nullptr && width > 0 && bytes_of_channel(format) > 0 &&
                    (channels == 1 || channels == 2 || channels == 4);
  if (!good) return CUDA_ERROR_INVALID_VALUE;
  CUdeviceptr at = 0;
  const CUresult result = allocate_range(function, RangeKind::kArray, &at,
                                         width * rows * bytes_of_channel(format) * channels);
  if (result == CUDA_SUCCESS) *array = reinterpret_cast<CUarray>(pointer_to(at));
  return result;
}
}  // namespace

CUresult cuArrayCreate_v2(CUarray* array, const CUDA_ARRAY_DESCRIPTOR_v2* shape) {
  if (shape == nullptr) return CUDA_ERROR_INVALID_VALUE;
  return make_array(__func__, array, shape->Width, std::max<std::size_t>(shape->Height, 1),
                    shape->Format, shape->NumChannels);
}

CUresult cuArray3DCreate_v2(CUarray* array, const CUDA_ARRAY3D_DESCRIPTOR_v2* shape) {
  if (shape == nullptr) return CUDA_ERROR_INVALID_VALUE;
  if (shape->Flags != 0) return CUDA_ERROR_NOT_SUPPORTED;
  const std::size_t rows =
      std::max<std::size_t>(shape->Height, 1) * std::max<std::size_t>(shape->Depth, 1);
  return make_array(__func__, array, shape->Width, rows, shape->Format, shape->NumChannels);
}

CUresult cuArrayDestroy(CUarray array) {
  Call call(__func__);
  if (call.refused() != CUDA_SUCCESS) return call.refused();
  const CUresult result = free_range(call, reinterpret_cast<std::uint64_t>(array),
                                     RangeKind::kArray, RangeKind::kArray);
  return result == CUDA_SUCCESS ? result : CUDA_ERROR_INVALID_HANDLE;
}
