// Arrays, mipmapped ones too. The driver says how much memory one takes only of those that have
// none yet, so they are charged for their elements, with rows padded as those of pitched memory.
#include "hook/memory.h"

SLUICE_DRIVER(cuArray3DCreate);
SLUICE_DRIVER(cuArray3DCreate_v2);
SLUICE_DRIVER(cuArrayCreate);
SLUICE_DRIVER(cuArrayCreate_v2);
SLUICE_DRIVER(cuArrayDestroy);
SLUICE_DRIVER(cuMipmappedArrayCreate);
SLUICE_DRIVER(cuMipmappedArrayDestroy);

namespace sluice::hook {
namespace {

struct Shape {
  uint64_t width, height, depth, element;
  bool has_memory;  // later ones get theirs by cuMemMapArrayAsync
};

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

template <class Descriptor>
Shape shape_of(const Descriptor* d) {
  if (d == nullptr || account_of(device_of_context()) == nullptr) return {};
  Shape shape{.width = d->Width,
              .height = d->Height != 0 ? d->Height : 1,
              .depth = 1,
              .element = bytes_of(d->Format) * d->NumChannels,
              .has_memory = true};
  if constexpr (requires { d->Depth; }) {
    shape.depth = d->Depth != 0 ? d->Depth : 1;
    shape.has_memory = (d->Flags & (CUDA_ARRAY3D_SPARSE | CUDA_ARRAY3D_DEFERRED_MAPPING)) == 0;
  }
  return shape;
}

uint64_t halved(uint64_t extent, unsigned times) {
  const uint64_t half = extent >> times;
  return half != 0 ? half : 1;
}

uint64_t charged_for(const Shape& shape, unsigned levels) {
  constexpr unsigned kMostLevels = 32;  // each halves what has 32 bits at most
  uint64_t all = 0;
  for (unsigned level = 0; shape.has_memory && level < levels && level < kMostLevels; ++level) {
    const uint64_t row = rounded_up(product(halved(shape.width, level), shape.element), kAlignment);
    all = sum(all, product(row, product(halved(shape.height, level), halved(shape.depth, level))));
  }
  return hook::charged_for(all);
}

template <auto create, auto destroy, class Descriptor>
CUresult create_array(CUarray* array, const Descriptor* descriptor) {
  return allocate_charged(
      array, charged_for(shape_of(descriptor), 1), [&] { return create(array, descriptor); },
      destroy);
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

SLUICE_EXPORT CUresult cuArrayCreate(CUarray* array, const CudaArrayDescriptorV1* shape) {
  return create_array<driver_cuArrayCreate, driver_cuArrayDestroy>(array, shape);
}
SLUICE_EXPORT CUresult cuArrayCreate_v2(CUarray* array, const CUDA_ARRAY_DESCRIPTOR_v2* shape) {
  return create_array<driver_cuArrayCreate_v2, driver_cuArrayDestroy>(array, shape);
}
SLUICE_EXPORT CUresult cuArray3DCreate(CUarray* array, const CudaArray3dDescriptorV1* shape) {
  return create_array<driver_cuArray3DCreate, driver_cuArrayDestroy>(array, shape);
}
SLUICE_EXPORT CUresult cuArray3DCreate_v2(CUarray* array, const CUDA_ARRAY3D_DESCRIPTOR_v2* shape) {
  return create_array<driver_cuArray3DCreate_v2, driver_cuArrayDestroy>(array, shape);
}
SLUICE_EXPORT CUresult cuArrayDestroy(CUarray array) {
  return destroy_array<driver_cuArrayDestroy>(array);
}

SLUICE_EXPORT CUresult cuMipmappedArrayCreate(CUmipmappedArray* array,
                                              const CUDA_ARRAY3D_DESCRIPTOR_v2* shape,
                                              unsigned levels) {
  return allocate_charged(
      array, charged_for(shape_of(shape), levels),
      [&] { return driver_cuMipmappedArrayCreate(array, shape, levels); },
      driver_cuMipmappedArrayDestroy);
}
SLUICE_EXPORT CUresult cuMipmappedArrayDestroy(CUmipmappedArray array) {
  return destroy_array<driver_cuMipmappedArrayDestroy>(array);
}

}  // extern "C"
