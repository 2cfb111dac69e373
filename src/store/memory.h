// Memory that the model store hands out: on the CPU or on one GPU. The store asks, in this order:
// allocate, for_filling, seal (or free), for_sharing, free. One thread.
#pragma once

#include <memory>

#include "base/fd.h"
#include "base/result.h"
#include "store/book.h"
#include "wire/store_message.h"

namespace sluice::node {

// How a process maps a tensor's memory.
struct StoreHandle {
  sluice_memory kind = SLUICE_MEMORY_HOST;
  uint64_t mapped = 0;  // bytes
  int descriptor = -1;  // the memory's, not owned; -1: `bytes` are the handle
  uint8_t bytes[64] = {};
  uint8_t device[16] = {};
};

class StoreMemory {
 public:
  virtual ~StoreMemory() = default;

  virtual uint64_t granule() const = 0;
  // Returns kExhausted if there is no memory.
  virtual Result<void> allocate(TensorNumber tensor, uint64_t bytes) = 0;
  virtual Result<StoreHandle> for_filling(TensorNumber tensor) = 0;
  // Makes it read-only for all processes, as far as this memory can enforce that. Returns kConflict
  // if a process may still write it.
  virtual Result<void> seal(TensorNumber tensor) = 0;
  virtual Result<StoreHandle> for_sharing(TensorNumber tensor) = 0;
  virtual void free(TensorNumber tensor) = 0;  // ignores an unknown tensor
};

// Shared memory of the CPU: one memfd a tensor, sealed against all writing once it is filled. Its
// pages are charged to the process that touches them first, the storer.
std::unique_ptr<StoreMemory> host_memory();

}  // namespace sluice::node
