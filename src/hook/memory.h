// What this process has charged for its memory: an account for each device, and for each address
// what it cost, so that freeing it gives back as much. All of it lies in memory that a fork wipes:
// a child, which cannot use what its parent allocated, begins with nothing. Any thread at any time.
#pragma once

#include <stdint.h>

#include "hook/address_table.h"
#include "hook/launch_gate.h"
#include "hook/lock.h"
#include "hook/memory_account.h"

namespace sluice::hook {

// Null: nothing is counted in this process, or of such a device.
MemoryAccount* account_of(int device);

// So much more exists than was charged, or less. False: the slice has no room for it; it is charged
// all the same.
bool charge_difference(MemoryAccount& account, int64_t more);

// What an allocation is charged. The driver takes whole granules for large ones, and cuts granules
// up for small ones, of kSmall at most, at this alignment.
constexpr uint64_t kGranule = uint64_t{2} << 20;
constexpr uint64_t kSmall = uint64_t{1} << 20;
constexpr uint64_t kAlignment = 512;
// Sums and products that do not fit are as large as can be.
constexpr uint64_t rounded_up(uint64_t bytes, uint64_t step) {
  return bytes <= UINT64_MAX - step ? (bytes + step - 1) / step * step : UINT64_MAX;
}
constexpr uint64_t charged_for(uint64_t bytes) {
  return rounded_up(bytes, bytes <= kSmall ? kAlignment : kGranule);
}
static_assert(charged_for(kSmall) == kSmall && charged_for(kSmall + 1) == kGranule);
constexpr uint64_t sum(uint64_t a, uint64_t b) {
  return a <= UINT64_MAX - b ? a + b : UINT64_MAX;
}
constexpr uint64_t product(uint64_t a, uint64_t b) {
  uint64_t result = 0;
  return __builtin_mul_overflow(a, b, &result) ? UINT64_MAX : result;
}

// A T of this process, zeros at first and again in every forked child; null: there is no memory.
template <class T>
T* wiped_once(T** place) {
  T* known = __atomic_load_n(place, __ATOMIC_ACQUIRE);
  if (known != nullptr) return known;
  T* made = static_cast<T*>(sluice_wiped_memory(sizeof(T)));
  if (made == nullptr) return nullptr;
  if (__atomic_compare_exchange_n(place, &known, made, false, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE))
    return made;
  munmap(made, sizeof(T));
  return known;
}

struct Charge {
  uint64_t bytes;
  int device;
  CUcontext context;  // what was allocated in one ends with it; null: in none
};

// What was charged for what: written down once it is allocated, taken out before it is freed (from
// then on the driver may hand out the same address), and put back when that fails. An address that
// is handed out again all the same was freed unseen, and is given back.
bool note_charge(uint64_t address, const Charge& charge);
bool take_out_charge(uint64_t address, Charge& charge);
// A context is gone, and all that was allocated in it.
void give_back_charges_of(CUcontext context);
// The calling thread's.
CUcontext current_context();

// Memory pools are charged for what they have reserved, which only they know: they give back at
// moments of their own.
// Looks at all pools of this process, and gives back what they have.
void settle_pools();

// Has the driver give back what destroyed graphs do not use (memory_graphs.cc).
void trim_graph_memory();

// As account.take(); if need be, after graphs have given back what they keep for later, all pools
// what they have, and then what they keep, as a driver does that has no memory left.
bool take_from_all(MemoryAccount& account, uint64_t bytes);

// Charges `bytes` to the device of the context, allocates, and notes what it cost by the address
// that `allocate` left in `address`; `release` undoes what cannot be noted.
template <class Address, class Allocate, class Release>
CUresult allocate_charged(const Address* address, uint64_t bytes, Allocate allocate,
                          Release release) {
  const int device = device_of_context();
  MemoryAccount* account = account_of(device);
  if (account == nullptr) return allocate();
  if (!take_from_all(*account, bytes)) return CUDA_ERROR_OUT_OF_MEMORY;
  SLUICE_STEP("allocate: taken");
  CUresult result = allocate();
  SLUICE_STEP("allocate: allocated");
  if (result == CUDA_SUCCESS &&
      !note_charge((uint64_t)*address, {bytes, device, current_context()})) {
    release(*address);
    result = CUDA_ERROR_OUT_OF_MEMORY;
  }
  if (result != CUDA_SUCCESS) account->give_back(bytes);
  return result;
}

// Frees, and gives back what it had cost. `known`: it had.
template <class Release>
CUresult free_charged(uint64_t address, Release release, bool& known) {
  Charge charge{};
  known = take_out_charge(address, charge);
  SLUICE_STEP("free: taken out");
  const CUresult result = release();
  SLUICE_STEP("free: freed");
  if (!known) return result;
  if (result == CUDA_SUCCESS)
    account_of(charge.device)->give_back(charge.bytes);
  else
    note_charge(address, charge);
  return result;
}

}  // namespace sluice::hook
