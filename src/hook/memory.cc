#include "hook/memory.h"

#include <stdlib.h>

SLUICE_DRIVER(cuCtxGetCurrent);

namespace sluice::hook {
namespace {

struct ProcessMemory {
  MemoryAccount accounts[kDevices];
  pthread_mutex_t lock;  // of the table
  AddressTable<Charge> charges;
};
ProcessMemory* process_memory;

}  // namespace

MemoryAccount* account_of(int device) {
  if (device < 0 || device >= kDevices) return nullptr;
  if (__atomic_load_n(&devices_seen, __ATOMIC_ACQUIRE) == 0) device_of_context();  // looks at them
  const char* path = __atomic_load_n(&gates[device].socket_path, __ATOMIC_RELAXED);
  if (path == nullptr) return nullptr;
  ProcessMemory* memory = wiped_once(&process_memory);
  if (memory == nullptr) return nullptr;
  memory->accounts[device].open(path, __atomic_load_n(&gates[device].device, __ATOMIC_RELAXED));
  return &memory->accounts[device];
}

bool charge_difference(MemoryAccount& account, int64_t more) {
  if (more <= 0) account.give_back(static_cast<uint64_t>(-more));
  if (more <= 0 || account.take(static_cast<uint64_t>(more))) return true;
  account.add(static_cast<uint64_t>(more));
  return false;
}

CUcontext current_context() {
  CUcontext context = nullptr;
  return driver_cuCtxGetCurrent(&context) == CUDA_SUCCESS ? context : nullptr;
}

bool note_charge(uint64_t address, const Charge& charge) {
  ProcessMemory* memory = wiped_once(&process_memory);
  if (memory == nullptr) return false;
  Charge unseen{};
  if (take_out_charge(address, unseen)) account_of(unseen.device)->give_back(unseen.bytes);
  const Lock lock(memory->lock);
  return memory->charges.insert(address, charge);
}

bool take_out_charge(uint64_t address, Charge& charge) {
  ProcessMemory* memory = __atomic_load_n(&process_memory, __ATOMIC_ACQUIRE);
  if (memory == nullptr) return false;
  const Lock lock(memory->lock);
  const Charge* found = memory->charges.find(address);
  if (found == nullptr) return false;
  charge = *found;
  return memory->charges.remove(address);
}

void give_back_charges_of(CUcontext context) {
  constexpr int kAtOnce = 64;
  ProcessMemory* memory = __atomic_load_n(&process_memory, __ATOMIC_ACQUIRE);
  if (memory == nullptr || context == nullptr) return;
  for (int count = kAtOnce; count == kAtOnce;) {
    uint64_t gone[kAtOnce];
    count = 0;
    {
      const Lock lock(memory->lock);
      memory->charges.for_each([&](uint64_t address, const Charge& charge) {
        if (charge.context == context && count < kAtOnce) gone[count++] = address;
      });
    }
    for (int i = 0; i < count; ++i) {
      Charge charge{};
      if (take_out_charge(gone[i], charge)) account_of(charge.device)->give_back(charge.bytes);
    }
  }
}

}  // namespace sluice::hook
