// The daemon's side of one pair of pages (docs/design/permits.md): made, mapped, sealed, handed
// over. Once sealed nobody maps the permit page writable again, this daemon included: a restart
// makes new ones. Movable; one thread owns a pair.
#pragma once

#include <utility>

#include "base/fd.h"
#include "base/result.h"
#include "wire/permit_page.h"

namespace sluice::node {

// A new page of shared memory that begins with `header`, and our writable map of it.
Result<void*> map_new_page(const char* name, const sluice_page_header& header, Fd& fd);

// From here on nobody maps it writable any more; the descriptor to hand out, for reading alone.
Result<Fd> seal_for_readers(const Fd& fd);

// What a client is sent: the permit page read-only, the usage page read-write.
struct PageFds {
  Fd permit;
  Fd usage;
};

// What a client says about itself, read once.
struct UsageView {
  bool waiting;  // threads are blocked
  bool want;     // has work
  uint32_t ack_seq;
};

// What it says beyond that, read once; not to be believed before node/hints.h has looked at it.
struct HintWords {
  uint64_t due_ns = 0;
  uint64_t cycle_ns = 0;
  uint32_t iterations = 0;
  uint32_t kind = 0;
  bool operator==(const HintWords&) const = default;
};

class Pages {
 public:
  static Result<std::pair<Pages, PageFds>> make(uint32_t generation);
  Pages(Pages&& other) noexcept
      : permit_(std::exchange(other.permit_, nullptr)),
        usage_(std::exchange(other.usage_, nullptr)) {}
  Pages& operator=(Pages&& other) noexcept {
    std::swap(permit_, other.permit_);
    std::swap(usage_, other.usage_);
    return *this;
  }
  ~Pages();

  sluice_permit_page& permit() { return *permit_; }
  uint32_t seq() const { return __atomic_load_n(&permit_->seq, __ATOMIC_RELAXED); }
  UsageView usage() const;
  sluice_device_report device_report() const { return sluice_device_report_read(usage_); }
  HintWords hints() const;
  // What its driver says to the SMs that it was to keep to, a CUresult; 0: nothing.
  uint32_t sm_refusal() const { return __atomic_load_n(&usage_->sm_refusal, __ATOMIC_RELAXED); }
  void wake() { sluice_permit_wake(permit_, usage_); }

 private:
  Pages(sluice_permit_page* permit, sluice_usage_page* usage) : permit_(permit), usage_(usage) {}

  sluice_permit_page* permit_;
  sluice_usage_page* usage_;
};

}  // namespace sluice::node
