#include "enforce/page.h"

#include <fcntl.h>
#include <sys/mman.h>

#include <cerrno>
#include <cstring>
#include <string>
#include <system_error>

namespace sluice::node {
namespace {

Error system_error(const char* what) {
  return {ErrorKind::kInternal,
          std::string("permit pages: ") + what + ": " + std::system_category().message(errno)};
}

// SEAL last: with a descriptor re-opened for writing a client could add seals of its own.
constexpr int kSized = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL;

}  // namespace

Result<void*> map_new_page(const char* name, const sluice_page_header& header, Fd& fd) {
  fd.reset(memfd_create(name, MFD_CLOEXEC | MFD_ALLOW_SEALING));
  if (!fd.valid()) return system_error("memfd_create");
  if (ftruncate(fd.get(), SLUICE_PAGE_SIZE) != 0) return system_error("ftruncate");
  void* page = mmap(nullptr, SLUICE_PAGE_SIZE, PROT_READ | PROT_WRITE, MAP_SHARED, fd.get(), 0);
  if (page == MAP_FAILED) return system_error("mmap");
  std::memcpy(page, &header, sizeof header);
  return page;
}

Result<Fd> seal_for_readers(const Fd& fd) {
  if (fcntl(fd.get(), F_ADD_SEALS, kSized | F_SEAL_FUTURE_WRITE) != 0)
    return system_error("F_ADD_SEALS");
  const std::string self = "/proc/self/fd/" + std::to_string(fd.get());
  Fd read_only(open(self.c_str(), O_RDONLY | O_CLOEXEC));
  if (!read_only.valid()) return system_error("re-opening read-only");
  return read_only;
}

Result<std::pair<Pages, PageFds>> Pages::make(uint32_t generation, uint32_t version) {
  Fd permit_fd, usage_fd;
  sluice_page_header header{SLUICE_PERMIT_MAGIC, version, SLUICE_PAGE_SIZE, generation, 0};
  SLUICE_ASSIGN(permit, map_new_page("sluice-permit", header, permit_fd));
  Pages pages(static_cast<sluice_permit_page*>(permit), nullptr);
  pages.permit_->seq = 1;
  header.magic = SLUICE_USAGE_MAGIC;
  SLUICE_ASSIGN(usage, map_new_page("sluice-usage", header, usage_fd));
  pages.usage_ = static_cast<sluice_usage_page*>(usage);

  SLUICE_ASSIGN(read_only, seal_for_readers(permit_fd));
  if (fcntl(usage_fd.get(), F_ADD_SEALS, kSized) != 0) return system_error("F_ADD_SEALS");
  return std::pair(std::move(pages), PageFds{std::move(read_only), std::move(usage_fd)});
}

Pages::~Pages() {
  if (permit_ != nullptr) munmap(permit_, SLUICE_PAGE_SIZE);
  if (usage_ != nullptr) munmap(usage_, SLUICE_PAGE_SIZE);
}

UsageView Pages::usage() const {
  return {.waiting = __atomic_load_n(&usage_->waiting, __ATOMIC_SEQ_CST) != 0,
          .want = __atomic_load_n(&usage_->want, __ATOMIC_SEQ_CST) != 0,
          .ack_seq = __atomic_load_n(&usage_->ack_seq, __ATOMIC_SEQ_CST)};
}

// The count is read first: its cycle and kind were stored before it.
HintWords Pages::hints() const {
  HintWords words;
  words.iterations = __atomic_load_n(&usage_->iterations, __ATOMIC_ACQUIRE);
  words.cycle_ns = __atomic_load_n(&usage_->cycle_ns, __ATOMIC_RELAXED);
  words.kind = __atomic_load_n(&usage_->kind, __ATOMIC_RELAXED);
  words.due_ns = __atomic_load_n(&usage_->due_ns, __ATOMIC_RELAXED);
  words.begun_ns = __atomic_load_n(&usage_->begun_ns, __ATOMIC_ACQUIRE);
  words.begun_submitted_ns = __atomic_load_n(&usage_->begun_submitted_ns, __ATOMIC_RELAXED);
  return words;
}

}  // namespace sluice::node
