#include "wire/store_mapping.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include <string>

#include "base/system_error.h"
#include "wire/store_mapping_cuda.h"

namespace sluice::wire {
namespace {

constexpr uint64_t kHugePage = 2 << 20;
constexpr int kMadvCollapse = 25;  // MADV_COLLAPSE of Linux 6.1; not in Debian 12's headers

// Returns addresses with nothing behind them, aligned so that huge pages fit; null if there are
// none.
char* reserve(uint64_t bytes) {
  const uint64_t more = bytes >= kHugePage ? kHugePage : 0;
  void* at =
      ::mmap(nullptr, bytes + more, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (at == MAP_FAILED) return nullptr;
  char* const begin = static_cast<char*>(at);
  if (more == 0) return begin;
  const uint64_t before = kHugePage - reinterpret_cast<uintptr_t>(at) % kHugePage;
  ::munmap(begin, before);
  if (before < more) ::munmap(begin + before + bytes, more - before);
  return begin + before;
}

// Shared memory of the CPU. Its address is kept while nothing is mapped there.
class HostMapping : public StoreMapping {
 public:
  static Result<std::unique_ptr<StoreMapping>> map(uint64_t bytes, Fd file, bool writable) {
    SLUICE_TRY(check(file, bytes));
    auto mapping = std::unique_ptr<HostMapping>(new HostMapping(bytes));
    if (mapping->at_ == nullptr) return system_error("addresses of a tensor");
    SLUICE_TRY(mapping->put(file, writable ? PROT_READ | PROT_WRITE : PROT_READ));
    if (writable) mapping->writable_ = std::move(file);
    return std::unique_ptr<StoreMapping>(std::move(mapping));
  }
  ~HostMapping() override {
    if (at_ != nullptr) ::munmap(at_, bytes_);
  }

  void* data() const override { return at_; }
  // Weights are read from end to end, and small pages would cost more TLB misses than private
  // memory with huge ones. If the kernel cannot merge them, they stay small.
  Result<void> stop_writing() override {
    (void)::madvise(at_, bytes_, kMadvCollapse);
    const int flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED;
    if (::mmap(at_, bytes_, PROT_NONE, flags, -1, 0) == MAP_FAILED)
      return system_error("unmapping a tensor");
    return {};
  }
  Result<void> resume() override { return put(writable_, PROT_READ | PROT_WRITE); }
  Result<void> read_only(Fd file) override {
    SLUICE_TRY(check(file, bytes_));
    writable_.reset();
    return put(file, PROT_READ);
  }

 private:
  explicit HostMapping(uint64_t bytes) : bytes_(bytes), at_(reserve(bytes)) {}

  // A file that can shrink would kill its readers.
  static Result<void> check(const Fd& file, uint64_t bytes) {
    struct stat s {};
    const int seals = ::fcntl(file.get(), F_GET_SEALS);  // -1: of a kind that has none
    if (::fstat(file.get(), &s) != 0 || static_cast<uint64_t>(s.st_size) < bytes || seals < 0 ||
        (seals & F_SEAL_SHRINK) == 0)
      return Error{ErrorKind::kInternal, "the store sent something that is not sealed memory of " +
                                             std::to_string(bytes) + " bytes"};
    return {};
  }
  Result<void> put(const Fd& file, int protection) {
    if (::mmap(at_, bytes_, protection, MAP_SHARED | MAP_FIXED, file.get(), 0) == MAP_FAILED)
      return system_error("mapping a tensor");
    return {};
  }

  const uint64_t bytes_;
  char* const at_;
  Fd writable_;
};

}  // namespace

Result<std::unique_ptr<StoreMapping>> StoreMapping::map(const sluice_store_answer& answer,
                                                        Fd handle) {
  const bool writable = answer.head.type == SLUICE_TOLD_FILL;
  if (answer.mapped < answer.bytes || answer.bytes == 0)
    return Error{ErrorKind::kInternal, "the store sent a tensor without a size"};
  if (answer.memory == SLUICE_MEMORY_HOST)
    return HostMapping::map(answer.mapped, std::move(handle), writable);
  if (answer.memory == SLUICE_MEMORY_CUDA) return map_cuda(answer, std::move(handle));
  if (answer.memory == SLUICE_MEMORY_CUDA_LEGACY) return map_cuda_legacy(answer);
  return Error{ErrorKind::kInternal,
               "the store has memory of a kind unknown here: " + std::to_string(answer.memory)};
}

}  // namespace sluice::wire
