#include "enforce/memory_page.h"

#include <fcntl.h>
#include <sys/mman.h>

#include "enforce/page.h"

namespace sluice::node {

Result<MemoryPage> MemoryPage::make(uint32_t generation) {
  const sluice_page_header header{SLUICE_MEMORY_MAGIC, SLUICE_WIRE_VERSION, SLUICE_PAGE_SIZE,
                                  generation, 0};
  Fd fd;
  SLUICE_ASSIGN(map, map_new_page("sluice-memory", header, fd));
  MemoryPage page(static_cast<sluice_memory_page*>(map), Fd());
  SLUICE_ASSIGN(reader, seal_for_readers(fd));
  page.reader_ = std::move(reader);
  return page;
}

MemoryPage::~MemoryPage() {
  if (page_ != nullptr) munmap(page_, SLUICE_PAGE_SIZE);
}

void MemoryPage::show(const MemoryLedger::Account& account) {
  const auto set = [](uint64_t& word, Bytes value) {
    __atomic_store_n(&word, static_cast<uint64_t>(value), __ATOMIC_RELAXED);
  };
  set(page_->limit, account.limit);
  set(page_->held, account.held);
  __atomic_store_n(&page_->holders, static_cast<uint32_t>(account.holders), __ATOMIC_RELAXED);
}

Result<Fd> MemoryPage::reader() const {
  Fd copy(fcntl(reader_.get(), F_DUPFD_CLOEXEC, 0));
  if (!copy.valid()) return Error{ErrorKind::kExhausted, "the daemon is out of descriptors"};
  return copy;
}

}  // namespace sluice::node
