// What the parts of the emulated NVML share: the process's one library, and how a handle becomes a
// device. A process has one NVML for all its callers, so this is the one object that is not handed
// in.
#pragma once

#pragma GCC visibility push(default)
#include "abi/nvml_abi.h"
#pragma GCC visibility pop

#include <array>
#include <deque>
#include <map>
#include <memory>
#include <mutex>

#include "tests/emulator/device_memory.h"
#include "tests/emulator/machine.h"

namespace sluice::emulator {

struct NvmlSample {
  Ns at = -1, busy = 0;
  unsigned percent = 0;
};

// How long the device had worked for each process.
struct NvmlProcessSample {
  Ns at = 0;
  std::map<std::int32_t, Ns> busy;
};

// There between nvmlInit and as many nvmlShutdown.
struct NvmlLibrary {
  std::mutex mutex;
  unsigned users = 0;
  std::unique_ptr<Machine> machine;
  std::array<NvmlSample, kDevices> samples;
  std::array<std::deque<NvmlProcessSample>, kDevices> processes;
};
NvmlLibrary& nvml_library();

// A handle is the address of the device's sample.
inline nvmlDevice_t handle_of(unsigned index) {
  return index < kDevices ? reinterpret_cast<nvmlDevice_t>(&nvml_library().samples[index])
                          : nullptr;
}

// kDevices: the handle is of none. The caller has the library's lock.
inline std::uint32_t index_of(nvmlDevice_t handle) {
  for (std::uint32_t i = 0; i < nvml_library().machine->spec().devices; ++i)
    if (handle_of(i) == handle) return i;
  return kDevices;
}

// `look` runs under both locks; `out` is where it will write.
template <typename F>
nvmlReturn_t with_device(nvmlDevice_t handle, const void* out, F&& look) {
  NvmlLibrary& library = nvml_library();
  const std::scoped_lock lock(library.mutex);
  if (library.machine == nullptr) return NVML_ERROR_UNINITIALIZED;
  const std::uint32_t index = index_of(handle);
  if (out == nullptr || index == kDevices) return NVML_ERROR_INVALID_ARGUMENT;
  Machine::Lock state(*library.machine);
  if (state->health[index].lost) return NVML_ERROR_GPU_IS_LOST;
  reap(*state, library.machine->memory_file());
  return look(*state, index);
}

}  // namespace sluice::emulator
