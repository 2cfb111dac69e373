// What the emulated NVML says about devices that fail (emulator/health.h): counted errors, and
// events that a waiter exists for. A set's waiter holds none of the library's locks while it waits.
#include <linux/futex.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "tests/emulator/nvml_library.h"

using namespace sluice::emulator;

struct nvmlEventSet_st {
  std::uint32_t seen = 0;  // of all events that there have been
  std::array<unsigned long long, kDevices> wanted{};
};

namespace {
Ns now_here() {
  timespec t{};
  clock_gettime(CLOCK_MONOTONIC, &t);
  return t.tv_sec * 1'000'000'000LL + t.tv_nsec;
}

// Finds the next event that the set wants and has not seen. Returns false if there is none among
// the `happened` events so far.
bool next_event(Machine& machine, nvmlEventSet_st& set, nvmlEventData_t& data,
                std::uint32_t& happened) {
  const Machine::Lock state(machine);
  happened = state->events_happened;
  if (happened - set.seen > kHealthEvents) set.seen = happened - kHealthEvents;  // too late
  while (set.seen != happened) {
    const HealthEvent& event = state->events[set.seen++ % kHealthEvents];
    if ((set.wanted[event.device] & event.type) == 0) continue;
    data = {handle_of(event.device), event.type, event.data, ~0U, ~0U};
    return true;
  }
  return false;
}
}  // namespace

nvmlReturn_t nvmlDeviceGetTotalEccErrors(nvmlDevice_t device, nvmlMemoryErrorType_t type,
                                         nvmlEccCounterType_t, unsigned long long* count) {
  return with_device(device, count, [&](const MachineState& state, std::uint32_t index) {
    *count =
        type == NVML_MEMORY_ERROR_TYPE_UNCORRECTED ? state.health[index].uncorrected_errors : 0;
    return NVML_SUCCESS;
  });
}

nvmlReturn_t nvmlEventSetCreate(nvmlEventSet_t* set) {
  NvmlLibrary& library = nvml_library();
  const std::scoped_lock lock(library.mutex);
  if (library.machine == nullptr) return NVML_ERROR_UNINITIALIZED;
  if (set == nullptr) return NVML_ERROR_INVALID_ARGUMENT;
  const Machine::Lock state(*library.machine);
  *set = new nvmlEventSet_st{state->events_happened};
  return NVML_SUCCESS;
}

nvmlReturn_t nvmlEventSetFree(nvmlEventSet_t set) {
  delete set;
  return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceRegisterEvents(nvmlDevice_t device, unsigned long long types,
                                      nvmlEventSet_t set) {
  return with_device(device, set, [&](const MachineState&, std::uint32_t index) {
    set->wanted[index] |= types;
    return NVML_SUCCESS;
  });
}

nvmlReturn_t nvmlEventSetWait_v2(nvmlEventSet_t set, nvmlEventData_t* data, unsigned timeout_ms) {
  Machine* machine = nullptr;
  std::uint32_t* happened = nullptr;
  {
    NvmlLibrary& library = nvml_library();
    const std::scoped_lock lock(library.mutex);
    machine = library.machine.get();
    if (machine == nullptr) return NVML_ERROR_UNINITIALIZED;
    if (set == nullptr || data == nullptr) return NVML_ERROR_INVALID_ARGUMENT;
    happened = &Machine::Lock(*machine)->events_happened;
  }
  const Ns give_up = now_here() + timeout_ms * 1'000'000LL;
  for (;;) {
    std::uint32_t known = 0;
    if (next_event(*machine, *set, *data, known)) return NVML_SUCCESS;
    const Ns left = give_up - now_here();
    if (left <= 0) return NVML_ERROR_TIMEOUT;
    const timespec wait{left / 1'000'000'000, left % 1'000'000'000};
    syscall(SYS_futex, happened, FUTEX_WAIT, known, &wait, nullptr, 0);
  }
}
