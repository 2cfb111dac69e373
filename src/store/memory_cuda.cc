#include "store/memory_cuda.h"

#include <algorithm>
#include <cstring>
#include <map>
#include <string>

#include "wire/cuda_calls.h"
#include "wire/permit_steps.h"

namespace sluice::node {
namespace {

using wire::CudaCalls;

struct Gpu {
  CudaCalls cuda;
  CUdevice device = 0;
  CUuuid uuid{};
};

class DescriptorMemory : public StoreMemory {
 public:
  static Result<std::unique_ptr<StoreMemory>> make(const Gpu& gpu) {
    int able = 0;
    const auto attribute = CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR_SUPPORTED;
    SLUICE_TRY(gpu.cuda.check(gpu.cuda.cuDeviceGetAttribute(&able, attribute, gpu.device),
                              "cuDeviceGetAttribute"));
    if (able == 0)
      return Error{ErrorKind::kUnavailable, "this device does not share memory by descriptors"};
    auto memory = std::make_unique<DescriptorMemory>(gpu);
    const CUmemAllocationProp kind = memory->properties();
    SLUICE_TRY(gpu.cuda.check(gpu.cuda.cuMemGetAllocationGranularity(
                                  &memory->granule_, &kind, CU_MEM_ALLOC_GRANULARITY_MINIMUM),
                              "cuMemGetAllocationGranularity"));
    return std::unique_ptr<StoreMemory>(std::move(memory));
  }
  explicit DescriptorMemory(const Gpu& gpu) : gpu_(gpu) {}

  uint64_t granule() const override { return granule_; }

  // The descriptor keeps the memory, so the handle can go.
  Result<void> allocate(TensorNumber tensor, uint64_t bytes) override {
    const CudaCalls& cuda = gpu_.cuda;
    const uint64_t mapped = (bytes + granule_ - 1) / granule_ * granule_;
    const CUmemAllocationProp kind = properties();
    CUmemGenericAllocationHandle memory = 0;
    SLUICE_TRY(cuda.check(cuda.cuMemCreate(&memory, mapped, &kind, 0), "cuMemCreate"));
    SLUICE_STEP("allocate: created");
    int file = -1;
    Result<void> exported =
        cuda.check(cuda.cuMemExportToShareableHandle(&file, memory,
                                                     CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0),
                   "cuMemExportToShareableHandle");
    if (!exported.ok()) {
      cuda.cuMemRelease(memory);
      return exported;
    }
    tensors_[tensor] = {memory, Fd(file), mapped};
    return {};
  }
  Result<StoreHandle> for_filling(TensorNumber tensor) override { return for_sharing(tensor); }
  Result<void> seal(TensorNumber) override { return {}; }
  Result<StoreHandle> for_sharing(TensorNumber tensor) override {
    const Tensor& t = tensors_.at(tensor);
    StoreHandle handle{.kind = SLUICE_MEMORY_CUDA, .mapped = t.mapped, .descriptor = t.file.get()};
    std::memcpy(handle.device, &gpu_.uuid, sizeof handle.device);
    return handle;
  }
  void free(TensorNumber tensor) override {
    const auto found = tensors_.find(tensor);
    if (found == tensors_.end()) return;
    gpu_.cuda.cuMemRelease(found->second.memory);
    tensors_.erase(found);
  }

 private:
  struct Tensor {
    CUmemGenericAllocationHandle memory;
    Fd file;
    uint64_t mapped;
  };

  CUmemAllocationProp properties() const {
    CUmemAllocationProp p{};
    p.type = CU_MEM_ALLOCATION_TYPE_PINNED;
    p.location = {CU_MEM_LOCATION_TYPE_DEVICE, gpu_.device};
    p.requestedHandleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
    return p;
  }

  const Gpu gpu_;
  size_t granule_ = 0;
  std::map<TensorNumber, Tensor> tensors_;
};

// The driver cuts small allocations from one block, which is shared whole; so every allocation is
// large.
constexpr uint64_t kBlock = uint64_t{2} << 20;

class LegacyMemory : public StoreMemory {
 public:
  static Result<std::unique_ptr<StoreMemory>> make(const Gpu& gpu) {
    CUcontext context = nullptr;
    SLUICE_TRY(gpu.cuda.check(gpu.cuda.cuDevicePrimaryCtxRetain(&context, gpu.device),
                              "cuDevicePrimaryCtxRetain"));
    return std::unique_ptr<StoreMemory>(std::make_unique<LegacyMemory>(gpu, context));
  }
  LegacyMemory(const Gpu& gpu, CUcontext context) : gpu_(gpu), context_(context) {}

  uint64_t granule() const override { return kBlock; }

  Result<void> allocate(TensorNumber tensor, uint64_t bytes) override {
    SLUICE_TRY(enter());
    const CudaCalls& cuda = gpu_.cuda;
    Tensor t{.mapped = (bytes + kBlock - 1) / kBlock * kBlock};
    SLUICE_TRY(cuda.check(cuda.cuMemAlloc_v2(&t.at, t.mapped), "cuMemAlloc"));
    Result<void> exported =
        cuda.check(cuda.cuIpcGetMemHandle(&t.handle, t.at), "cuIpcGetMemHandle");
    if (!exported.ok()) {
      cuda.cuMemFree_v2(t.at);
      return exported;
    }
    tensors_[tensor] = t;
    return {};
  }
  Result<StoreHandle> for_filling(TensorNumber tensor) override { return for_sharing(tensor); }
  Result<void> seal(TensorNumber) override { return {}; }
  Result<StoreHandle> for_sharing(TensorNumber tensor) override {
    const Tensor& t = tensors_.at(tensor);
    StoreHandle handle{.kind = SLUICE_MEMORY_CUDA_LEGACY, .mapped = t.mapped};
    std::memcpy(handle.bytes, &t.handle, sizeof handle.bytes);
    std::memcpy(handle.device, &gpu_.uuid, sizeof handle.device);
    return handle;
  }
  void free(TensorNumber tensor) override {
    const auto found = tensors_.find(tensor);
    if (found == tensors_.end() || !enter().ok()) return;
    gpu_.cuda.cuMemFree_v2(found->second.at);
    tensors_.erase(found);
  }

 private:
  struct Tensor {
    CUdeviceptr at = 0;
    CUipcMemHandle handle{};
    uint64_t mapped = 0;
  };

  // A context is current per thread, and the store's thread did not make this one.
  Result<void> enter() {
    return gpu_.cuda.check(gpu_.cuda.cuCtxSetCurrent(context_), "cuCtxSetCurrent");
  }

  const Gpu gpu_;
  const CUcontext context_;
  std::map<TensorNumber, Tensor> tensors_;
};

Result<Gpu> open_gpu(int ordinal) {
  SLUICE_ASSIGN(cuda, wire::open_cuda());
  Gpu gpu{.cuda = cuda};
  int count = 0;
  SLUICE_TRY(cuda.check(cuda.cuDeviceGetCount(&count), "cuDeviceGetCount"));
  if (ordinal < 0 || ordinal >= count)
    return Error{ErrorKind::kUnavailable, "device " + std::to_string(ordinal) + " is none of the " +
                                              std::to_string(count) + " that are visible"};
  SLUICE_TRY(cuda.check(cuda.cuDeviceGet(&gpu.device, ordinal), "cuDeviceGet"));
  SLUICE_TRY(cuda.check(cuda.cuDeviceGetUuid_v2(&gpu.uuid, gpu.device), "cuDeviceGetUuid"));
  return gpu;
}

}  // namespace

Result<std::unique_ptr<StoreMemory>> cuda_memory(int device, CudaSharing sharing) {
  SLUICE_ASSIGN(gpu, open_gpu(device));
  return sharing == CudaSharing::kDescriptors ? DescriptorMemory::make(gpu)
                                              : LegacyMemory::make(gpu);
}

}  // namespace sluice::node
