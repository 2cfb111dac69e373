#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <map>
#include <string>

#include "base/system_error.h"
#include "store/memory.h"

namespace sluice::node {
namespace {

constexpr uint64_t kPage = 4096;

class HostMemory : public StoreMemory {
 public:
  uint64_t granule() const override { return kPage; }

  Result<void> allocate(TensorNumber tensor, uint64_t bytes) override {
    const uint64_t mapped = (bytes + kPage - 1) / kPage * kPage;
    Fd file(::memfd_create("sluice-tensor", MFD_CLOEXEC | MFD_ALLOW_SEALING));
    if (!file.valid()) return system_error("memfd_create");
    if (::ftruncate(file.get(), static_cast<off_t>(mapped)) != 0)
      return Error{ErrorKind::kExhausted, system_error("ftruncate").message};
    if (::fcntl(file.get(), F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW) != 0)
      return system_error("F_ADD_SEALS");
    tensors_[tensor] = {std::move(file), Fd(), mapped};
    return {};
  }

  Result<StoreHandle> for_filling(TensorNumber tensor) override {
    const Tensor& t = tensors_.at(tensor);
    return StoreHandle{.mapped = t.mapped, .descriptor = t.file.get()};
  }

  // The kernel refuses while a process has it mapped writable. A storer may have sealed it already.
  Result<void> seal(TensorNumber tensor) override {
    Tensor& t = tensors_.at(tensor);
    const int file = t.file.get();
    if ((::fcntl(file, F_GET_SEALS) & F_SEAL_WRITE) == 0 &&
        ::fcntl(file, F_ADD_SEALS, F_SEAL_WRITE | F_SEAL_SEAL) != 0)
      return Error{ErrorKind::kConflict,
                   "the tensor is mapped writable: " + system_error("F_SEAL_WRITE").message};
    t.read_only =
        Fd(::open(("/proc/self/fd/" + std::to_string(file)).c_str(), O_RDONLY | O_CLOEXEC));
    if (!t.read_only.valid()) return system_error("opening a tensor read-only");
    t.file.reset();
    return {};
  }

  Result<StoreHandle> for_sharing(TensorNumber tensor) override {
    const Tensor& t = tensors_.at(tensor);
    return StoreHandle{.mapped = t.mapped, .descriptor = t.read_only.get()};
  }

  void free(TensorNumber tensor) override { tensors_.erase(tensor); }

 private:
  struct Tensor {
    Fd file;       // until it is sealed
    Fd read_only;  // after that
    uint64_t mapped = 0;
  };
  std::map<TensorNumber, Tensor> tensors_;
};

}  // namespace

std::unique_ptr<StoreMemory> host_memory() {
  return std::make_unique<HostMemory>();
}

}  // namespace sluice::node
