// cuGetProcAddress, through which CUDA's runtime takes everything. The driver is asked first, with
// the caller's own arguments; an address that belongs to a hooked entry point is then replaced by
// the hook of that very version and variant. So names, versions, flags and what is not found stay
// the driver's business.
//
// The table from addresses to hooks is built by whoever comes first (threads that come at once each
// build one, and the first is kept: no lock is held over the dynamic loader) and never changes.
#include <stdint.h>
#include <stdlib.h>

#include "hook/driver.h"
#include "hook/hooks.h"

SLUICE_DRIVER(cuGetProcAddress);
SLUICE_DRIVER(cuGetProcAddress_v2);

namespace sluice::hook {
namespace {

struct Hook {
  const char* name;    // as exported
  const char* symbol;  // as cuGetProcAddress is asked, with the next two
  int version;
  uint64_t flags;
  void* ours;
};

const Hook kHooks[] = {
#define SLUICE_PASSED(name)
#define SLUICE_HOOKED(name, symbol, version, flags) \
  {#name, symbol, version, flags, reinterpret_cast<void*>(name)},
#include "hook/entry_points.inc"
#undef SLUICE_PASSED
#undef SLUICE_HOOKED
};

// Open addressing; filled before it is shared.
class AddressMap {
 public:
  void add(const void* driver, void* ours) {
    if (driver == nullptr) return;
    Slot* slot = find(driver);
    *slot = {driver, ours};
  }
  // The hook of a driver's function; the function itself where it is not hooked.
  void* hook_of(void* driver) {
    const Slot* slot = find(driver);
    return slot->driver != nullptr ? slot->ours : driver;
  }

 private:
  struct Slot {
    const void* driver;
    void* ours;
  };
  static constexpr unsigned kBits = 10;
  static_assert(2 * (sizeof kHooks / sizeof *kHooks) <= (1u << kBits) / 2, "at most half full");

  Slot* find(const void* driver) {
    const auto key = reinterpret_cast<uintptr_t>(driver);
    auto at = static_cast<unsigned>((key * 0x9e3779b97f4a7c15u) >> (64 - kBits));  // Fibonacci
    while (slots_[at].driver != nullptr && slots_[at].driver != driver)
      at = (at + 1) % (1u << kBits);
    return &slots_[at];
  }

  Slot slots_[1u << kBits];
};

AddressMap* map;

// A driver may call its own cuGetProcAddress by name, and preloaded, that is ours.
__thread bool filling;

// By name, and as the driver answers: the two need not be the same address.
void fill(AddressMap& built) {
  auto* ask = reinterpret_cast<__typeof__(&cuGetProcAddress)>(driver_function("cuGetProcAddress"));
  for (const Hook& hook : kHooks) {
    void* address = nullptr;
    built.add(driver_function(hook.name), hook.ours);
    if (ask != nullptr && ask(hook.symbol, &address, hook.version, hook.flags) == CUDA_SUCCESS)
      built.add(address, hook.ours);
  }
}

void* hook_of(void* driver) {
  AddressMap* known = __atomic_load_n(&map, __ATOMIC_ACQUIRE);
  if (known == nullptr) {
    if (filling) return driver;
    auto* built = static_cast<AddressMap*>(calloc(1, sizeof(AddressMap)));
    if (built == nullptr) return driver;
    filling = true;
    fill(*built);
    filling = false;
    if (__atomic_compare_exchange_n(&map, &known, built, false, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE))
      known = built;
    else
      free(built);
  }
  return known->hook_of(driver);
}

}  // namespace
}  // namespace sluice::hook

extern "C" {

SLUICE_EXPORT CUresult cuGetProcAddress(const char* symbol, void** function, int version,
                                        uint64_t flags) {
  const CUresult result = driver_cuGetProcAddress(symbol, function, version, flags);
  if (result == CUDA_SUCCESS && function != nullptr) *function = sluice::hook::hook_of(*function);
  return result;
}

SLUICE_EXPORT CUresult cuGetProcAddress_v2(const char* symbol, void** function, int version,
                                           uint64_t flags, CUdriverProcAddressQueryResult* found) {
  const CUresult result = driver_cuGetProcAddress_v2(symbol, function, version, flags, found);
  if (result == CUDA_SUCCESS && function != nullptr) *function = sluice::hook::hook_of(*function);
  return result;
}

}  // extern "C"
