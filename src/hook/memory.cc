#include "hook/memory.h"

#include <stdlib.h>

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
  memory->accounts[device].open(path, static_cast<uint32_t>(device));
  return &memory->accounts[device];
}

bool note_charge(uint64_t address, const Charge& charge) {
  ProcessMemory* memory = wiped_once(&process_memory);
  if (memory == nullptr) return false;
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

}  // namespace sluice::hook
