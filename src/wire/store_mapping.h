// A tensor's memory in this process: mapped by the store's handle, made read-only, released. Not
// thread-safe. The address never changes.
#pragma once

#include <memory>

#include "base/fd.h"
#include "base/result.h"
#include "wire/store_message.h"

namespace sluice::wire {

class StoreMapping {
 public:
  // Maps it by an answer of type FILL or SHARE and its descriptor (none: invalid).
  static Result<std::unique_ptr<StoreMapping>> map(const sluice_store_answer& answer, Fd handle);
  virtual ~StoreMapping() = default;  // unmaps

  virtual void* data() const = 0;
  virtual bool on_cuda() const { return false; }

  // Before the commit: this process can no longer write the memory. After an error, or resume(), it
  // can.
  virtual Result<void> stop_writing() = 0;
  virtual Result<void> resume() = 0;
  // After the commit, by its answer.
  virtual Result<void> read_only(Fd handle) = 0;
};

}  // namespace sluice::wire
