#include "wire/store_mapping_cuda.h"

#include <cstring>

#include "wire/cuda_calls.h"
#include "wire/permit_steps.h"

namespace sluice::wire {
namespace {

// A device's address is a number to CUDA, and a pointer to all other code.
void* pointer_to(CUdeviceptr at) {
  return reinterpret_cast<void*>(at);  // NOLINT(performance-no-int-to-ptr)
}

class CudaMapping : public StoreMapping {
 public:
  CudaMapping(const CudaCalls& cuda, CUdevice device, uint64_t bytes)
      : cuda_(cuda), device_(device), bytes_(bytes) {}
  ~CudaMapping() override {
    if (mapped_) cuda_.cuMemUnmap(at_, bytes_);
    if (at_ != 0) cuda_.cuMemAddressFree(at_, bytes_);
  }

  // The map keeps the memory, so the handle can go.
  Result<void> map(const Fd& shared, bool writable) {
    CUmemGenericAllocationHandle memory = 0;
    void* file = pointer_to(static_cast<CUdeviceptr>(shared.get()));
    SLUICE_TRY(cuda_.check(cuda_.cuMemImportFromShareableHandle(
                               &memory, file, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR),
                           "cuMemImportFromShareableHandle"));
    SLUICE_STEP("map: imported");
    Result<void> done =
        cuda_.check(cuda_.cuMemAddressReserve(&at_, bytes_, 0, 0, 0), "cuMemAddressReserve");
    if (done.ok()) done = cuda_.check(cuda_.cuMemMap(at_, bytes_, 0, memory, 0), "cuMemMap");
    mapped_ = done.ok();
    cuda_.cuMemRelease(memory);
    if (!done.ok()) return done;
    SLUICE_STEP("map: mapped");
    return allow(writable);
  }

  void* data() const override { return pointer_to(at_); }
  bool on_cuda() const override { return true; }
  Result<void> stop_writing() override { return allow(false); }
  Result<void> resume() override { return allow(true); }
  Result<void> read_only(Fd) override { return {}; }

 private:
  Result<void> allow(bool writable) {
    CUmemAccessDesc access{};
    access.location = {CU_MEM_LOCATION_TYPE_DEVICE, device_};
    access.flags = writable ? CU_MEM_ACCESS_FLAGS_PROT_READWRITE : CU_MEM_ACCESS_FLAGS_PROT_READ;
    return cuda_.check(cuda_.cuMemSetAccess(at_, bytes_, &access, 1), "cuMemSetAccess");
  }

  const CudaCalls cuda_;
  const CUdevice device_;
  const uint64_t bytes_;
  CUdeviceptr at_ = 0;
  bool mapped_ = false;
};

class LegacyMapping : public StoreMapping {
 public:
  LegacyMapping(const CudaCalls& cuda, CUdeviceptr at) : cuda_(cuda), at_(at) {}
  ~LegacyMapping() override { cuda_.cuIpcCloseMemHandle(at_); }

  void* data() const override { return pointer_to(at_); }
  bool on_cuda() const override { return true; }
  Result<void> stop_writing() override { return {}; }
  Result<void> resume() override { return {}; }
  Result<void> read_only(Fd) override { return {}; }

 private:
  const CudaCalls cuda_;
  const CUdeviceptr at_;
};

}  // namespace

Result<std::unique_ptr<StoreMapping>> map_cuda(const sluice_store_answer& answer, Fd handle) {
  if (!handle.valid()) return Error{ErrorKind::kInternal, "the store sent no descriptor"};
  SLUICE_ASSIGN(cuda, open_cuda());
  SLUICE_ASSIGN(device, cuda.device_of(answer.device));
  auto mapping = std::make_unique<CudaMapping>(cuda, device, answer.mapped);
  SLUICE_TRY(mapping->map(handle, answer.head.type == SLUICE_TOLD_FILL));
  return std::unique_ptr<StoreMapping>(std::move(mapping));
}

Result<std::unique_ptr<StoreMapping>> map_cuda_legacy(const sluice_store_answer& answer) {
  SLUICE_ASSIGN(cuda, open_cuda());
  SLUICE_ASSIGN(device, cuda.device_of(answer.device));
  CUdevice current = 0;
  SLUICE_TRY(cuda.check(cuda.cuCtxGetDevice(&current), "cuCtxGetDevice"));
  if (current != device)
    return Error{ErrorKind::kInvalid, "the tensor is on device " + std::to_string(device) +
                                          ", the current context on " + std::to_string(current)};
  CUipcMemHandle handle{};
  static_assert(sizeof handle == sizeof answer.handle);
  std::memcpy(&handle, answer.handle, sizeof handle);
  CUdeviceptr at = 0;
  SLUICE_TRY(cuda.check(cuda.cuIpcOpenMemHandle_v2(&at, handle, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS),
                        "cuIpcOpenMemHandle"));
  return std::unique_ptr<StoreMapping>(std::make_unique<LegacyMapping>(cuda, at));
}

}  // namespace sluice::wire
