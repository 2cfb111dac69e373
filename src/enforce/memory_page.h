// The page that shows a slice's memory to its processes (wire/permit_memory.h), which may only read
// it. Movable; one thread at a time.
#pragma once

#include <utility>

#include "base/fd.h"
#include "base/result.h"
#include "enforce/memory_ledger.h"
#include "wire/permit_memory.h"

namespace sluice::node {

class MemoryPage {
 public:
  static Result<MemoryPage> make(uint32_t generation);
  MemoryPage(MemoryPage&& other) noexcept
      : page_(std::exchange(other.page_, nullptr)), reader_(std::move(other.reader_)) {}
  MemoryPage& operator=(MemoryPage&&) = delete;
  ~MemoryPage();

  void show(const MemoryLedger::Account& account);
  Result<Fd> reader() const;  // a descriptor to hand out

 private:
  MemoryPage(sluice_memory_page* page, Fd reader) : page_(page), reader_(std::move(reader)) {}

  sluice_memory_page* page_;
  Fd reader_;
};

}  // namespace sluice::node
