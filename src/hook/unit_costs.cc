#include "hook/unit_costs.h"

namespace sluice::hook {

void UnitCosts::learn(uint64_t key, uint64_t ns) {
  constexpr uint32_t kMemory = 8;
  Entry& e = find_or_make(key);
  if (e.timings != 0 && ns > 4 * e.mean_ns) ns = 4 * e.mean_ns;
  if (e.timings < kMemory) ++e.timings;
  const auto change = static_cast<int64_t>(ns - e.mean_ns) / static_cast<int64_t>(e.timings);
  e.mean_ns += static_cast<uint64_t>(change);
  if (e.mean_ns == 0) e.mean_ns = 1;
  if (e.timings >= kYoung) __atomic_store_n(&e.relied_ns, e.mean_ns, __ATOMIC_RELAXED);
}

void UnitCosts::learn_beside(uint64_t key, uint64_t ns, uint64_t others_ns) {
  const uint64_t known = guess(key), all = known + others_ns;
  if (others_ns == 0 || known == 0 || ns < known)
    learn(key, ns);
  else if (ns / 2 > all)
    learn(key, known * (ns / all));
}

void UnitCosts::forget(uint64_t key) {
  if (find(key) != nullptr) forget(find_or_make(key));
}

void UnitCosts::doubt_kernels() {
  for (Entry& e : entries_) {
    if (!is_kernel(e.key)) continue;
    __atomic_store_n(&e.relied_ns, 0, __ATOMIC_RELAXED);
    e.timings = 0;
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
