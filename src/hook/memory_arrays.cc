// Arrays, mipmapped ones too. The driver says how much memory one takes only of those that have
// none yet, so they are charged for their elements, with rows padded as those of pitched memory.
#include "hook/memory.h"

SLUICE_DRIVER(cuArray3DCreate_v2);
SLUICE_DRIVER(cuArrayCreate_v2);
SLUICE_DRIVER(cuArrayDestroy);
SLUICE_DRIVER(cuMipmappedArrayCreate);
SLUICE_DRIVER(cuMipmappedArrayDestroy);

namespace sluice::hook {
namespace {

// Of one channel; formats that are newer or packed are taken for 32 bits.
constexpr uint64_t bytes_of(CUarray_format format) {
  switch (format) {
    case CU_AD_FORMAT_UNSIGNED_INT8:
    case CU_AD_FORMAT_SIGNED_INT8:
      return 1;
    case CU_AD_FORMAT_UNSIGNED_INT16:
    case CU_AD_FORMAT_SIGNED_INT16:
    case CU_AD_FORMAT_HALF:
      return 2;
    default:
      return 4;
  }
}

uint64_t halved(uint64_t extent, unsigned times) {
  const uint64_t half = extent >> times;
  return half != 0 ? half : 1;
}

// Sparse arrays, and those with deferred mapping, get their memory later, by cuMemMapArrayAsync.
template <class Descriptor>
uint64_t bytes_of(const Descriptor* descriptor, unsigned levels) {
  constexpr unsigned kMostLevels = 32;  // each halves what has 32 bits at most
  if (descriptor == nullptr || account_of(device_of_context()) == nullptr) return 0;
  CUDA_ARRAY3D_DESCRIPTOR_v2 d{};
  if constexpr (requires { descriptor->Depth; })
    d = *descriptor;
  else
    d = {descriptor->Width, descriptor->Height, 0, descriptor->Format, descriptor->NumChannels, 0};
  if ((d.Flags & (CUDA_ARRAY3D_SPARSE | CUDA_ARRAY3D_DEFERRED_MAPPING)) != 0) return 0;
  const uint64_t element = bytes_of(d.Format) * d.NumChannels;
  uint64_t all = 0;
  for (unsigned level = 0; level < levels && level < kMostLevels; ++level) {
    const uint64_t row = rounded_up(product(halved(d.Width, level), element), kAlignment);
    all = sum(all, product(row, product(halved(d.Height, level), halved(d.Depth, level))));
  }
  return charged_for(all);
}

template <auto destroy, class Array>
CUresult destroy_array(Array array) {
  bool known = false;
  return free_charged(
      reinterpret_cast<uint64_t>(array), [&] { return destroy(array); }, known);
}

}  // namespace
}  // namespace sluice::hook

using namespace sluice::hook;

extern "C" {

SLUICE_EXPORT CUresult cuArrayCreate_v2(CUarray* array, const CUDA_ARRAY_DESCRIPTOR_v2* shape) {
  return allocate_charged(
      array, bytes_of(shape, 1), [&] { return driver_cuArrayCreate_v2(array, shape); },
      driver_cuArrayDestroy);
}
SLUICE_EXPORT CUresult cuArray3DCreate_v2(CUarray* array, const CUDA_ARRAY3D_DESCRIPTOR_v2* shape) {
  return allocate_charged(
      array, bytes_of(shape, 1), [&] { return driver_cuArray3DCreate_v2(array, shape); },
      driver_cuArrayDestroy);
}
SLUICE_EXPORT CUresult cuArrayDestroy(CUarray array) {
  return destroy_array<driver_cuArrayDestroy>(array);
}

SLUICE_EXPORT CUresult cuMipmappedArrayCreate(CUmipmappedArray* array,
                                              const CUDA_ARRAY3D_DESCRIPTOR_v2* shape,
                                              unsigned levels) {
  return allocate_charged(
      array, bytes_of(shape, levels),
      [&] { return driver_cuMipmappedArrayCreate(array, shape, levels); },
      driver_cuMipmappedArrayDestroy);
}
SLUICE_EXPORT CUresult cuMipmappedArrayDestroy(CUmipmappedArray array) {
  return destroy_array<driver_cuMipmappedArrayDestroy>(array);
}

}  // extern "C"
