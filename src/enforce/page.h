// The daemon's side of one pair of pages (docs/design/permits.md): made, mapped, sealed, handed
// over. After the seal no process can map the permit page writable again, not even this daemon: a
// restart makes new pages. Movable; one thread owns a pair.
#pragma once

#include <utility>

#include "base/clock.h"
#include "base/fd.h"
#include "base/result.h"
#include "wire/permit_page.h"

namespace sluice::node {

// Makes a page of shared memory that begins with `header`. Returns our writable map of it.
Result<void*> map_new_page(const char* name, const sluice_page_header& header, Fd& fd);

// Seals the page: no process can map it writable any more. Returns a read-only descriptor to hand
// out.
Result<Fd> seal_for_readers(const Fd& fd);

// As pages have it.
inline uint64_t page_time(Time t) {
  if (t >= Time(Nanos(SLUICE_PARKED))) return SLUICE_PARKED;
  return static_cast<uint64_t>(t.time_since_epoch().count());
}

// What a client receives: the permit page read-only, the usage page read-write.
struct PageFds {
  Fd permit;
  Fd usage;
};

// A client's own report, read once.
struct UsageView {
  bool waiting;  // threads are blocked
  bool want;     // has work
  uint32_t ack_seq;
};

// Its hints, read once; untrusted until enforce/hints.h has checked them.
struct HintWords {
  uint64_t due_ns = 0;
  uint64_t cycle_ns = 0;
  uint32_t iterations = 0;
  uint32_t kind = 0;
  uint64_t begun_ns = 0;
  uint64_t begun_submitted_ns = 0;
  bool operator==(const HintWords&) const = default;
};

class Pages {
 public:
  // version: the client's, of those that this daemon serves.
  static Result<std::pair<Pages, PageFds>> make(uint32_t generation,
                                                uint32_t version = SLUICE_WIRE_VERSION);
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
  uint32_t version() const { return permit_->header.version; }
  // Its client's budgets on a GPU are totals; in version 1 they began when they were seen.
  bool has_totals() const { return version() >= 2; }
  sluice_device_report device_report() const {
    return sluice_device_report_read(usage_, version());
  }
  HintWords hints() const;
  void wake() { sluice_permit_wake(permit_, usage_); }

 private:
  Pages(sluice_permit_page* permit, sluice_usage_page* usage) : permit_(permit), usage_(usage) {}

  sluice_permit_page* permit_;
  sluice_usage_page* usage_;
};

}  // namespace sluice::node
