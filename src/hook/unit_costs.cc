#include "hook/unit_costs.h"

namespace sluice::hook {

void UnitCosts::learn(uint64_t key, uint64_t ns) {
  constexpr uint8_t kMemory = 8;
  Entry& e = find_or_make(key);
  if (e.doubted) begin_anew(e);
  if (e.timings != 0 && ns > 4 * e.mean_ns) ns = 4 * e.mean_ns;
  if (e.timings < kMemory) ++e.timings;
  const auto change = static_cast<int64_t>(ns - e.mean_ns) / static_cast<int64_t>(e.timings);
  e.mean_ns += static_cast<uint64_t>(change);
  if (e.mean_ns == 0) e.mean_ns = 1;
  if (e.known < kYoung) ++e.known;
  rely_on(e);
}

void UnitCosts::learn_beside(uint64_t key, uint64_t ns) {
  Entry& e = find_or_make(key);
  if (e.doubted) begin_anew(e);
  if (e.known < kYoung) ++e.known;
  if (e.timings == 0) {
    if (e.in_row == 0 || ns < e.least_ns) e.least_ns = ns;
    if (++e.in_row == kRow) {
      e.before_ns = e.least_ns;
      e.in_row = 0;
    }
  }
  rely_on(e);
}

uint64_t UnitCosts::Entry::guess() const {
  if (timings != 0) return mean_ns;
  if (in_row == 0) return before_ns;
  return before_ns == 0 || least_ns < before_ns ? least_ns : before_ns;
}

void UnitCosts::rely_on(Entry& e) {
  if (e.known >= kYoung) __atomic_store_n(&e.relied_ns, e.guess(), __ATOMIC_RELAXED);
}

void UnitCosts::forget(uint64_t key) {
  if (find(key) != nullptr) forget(find_or_make(key));
}

void UnitCosts::doubt_kernels() {
  for (Entry& e : entries_) {
    if (!is_kernel(e.key)) continue;
    __atomic_store_n(&e.relied_ns, 0, __ATOMIC_RELAXED);
    e.doubted = true;
  }
}

// Where all places are taken, the first is: whoever reads meanwhile may get the other's cost, once.
UnitCosts::Entry& UnitCosts::find_or_make(uint64_t key) {
  unsigned at = home(key);
  for (unsigned i = 0; i < kProbes; ++i) {
    Entry& e = entries_[(at + i) % (1u << kBits)];
    if (e.key == key) return e;
    if (e.key != 0) continue;
    at += i;
    break;
  }
  Entry& e = entries_[at % (1u << kBits)];
  forget(e);
  __atomic_store_n(&e.key, key, __ATOMIC_RELAXED);
  return e;
}

}  // namespace sluice::hook
