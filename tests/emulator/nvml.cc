// The emulated libnvidia-ml.so.1: what NVML says about the machine that the emulated driver's
// clients use. It only reads and is no client. Any thread may call.
#include <cstdlib>
#include <cstring>
#include <string>

#include "tests/emulator/device_memory.h"
#include "tests/emulator/identity.h"
#include "tests/emulator/nvml_library.h"
#include "tests/emulator/settings.h"

namespace sluice::emulator {
NvmlLibrary& nvml_library() {
  static NvmlLibrary library;
  return library;
}
}  // namespace sluice::emulator

using namespace sluice::emulator;

namespace {
constexpr Ns kSample = 100'000'000;   // utilisation is of periods no shorter than that
constexpr unsigned kCoresInSm = 128;  // as the architecture that it claims to be has

NvmlLibrary& library = nvml_library();

nvmlReturn_t open_machine() {
  const char* path = std::getenv("SLUICE_EMULATED_GPU");
  if (path == nullptr) return NVML_ERROR_DRIVER_NOT_LOADED;
  MachineSpec spec;
  std::string why;
  const char* settings = std::getenv("SLUICE_EMULATED_GPU_SPEC");
  if (settings != nullptr && !read_settings(settings, spec, why)) return NVML_ERROR_UNKNOWN;
  library.machine = Machine::open(path, spec);
  library.samples.fill({});
  library.processes.fill({});
  return library.machine == nullptr ? NVML_ERROR_UNKNOWN : NVML_SUCCESS;
}

nvmlReturn_t write(const std::string& text, char* to, unsigned size) {
  if (text.size() >= size) return NVML_ERROR_INSUFFICIENT_SIZE;
  std::memcpy(to, text.c_str(), text.size() + 1);
  return NVML_SUCCESS;
}

void fill(nvmlProcessInfo_v1_t& to, unsigned pid, std::uint64_t memory) {
  to = {pid, memory};
}
void fill(nvmlProcessInfo_t& to, unsigned pid, std::uint64_t memory) {
  to = {pid, memory, ~0U, ~0U};
}

// Clients of the one kind of device are listed there, and nowhere else.
template <typename Row>
nvmlReturn_t list_processes(nvmlDevice_t device, unsigned* count, Row* processes, bool shared) {
  return with_device(device, count, [&](const MachineState& state, std::uint32_t index) {
    unsigned found = 0;
    for (std::uint32_t i = 0; i < kProcesses; ++i) {
      const Process& process = state.processes[i];
      if (!process.used || process.client[index] == DeviceModel::kNone) continue;
      if (state.devices[index].spec().shared != shared) continue;
      if (processes != nullptr && found < *count)
        fill(processes[found], static_cast<unsigned>(process.pid), memory_used_by(state, index, i));
      ++found;
    }
    const bool fits = found == 0 || (processes != nullptr && found <= *count);
    *count = found;
    return fits ? NVML_SUCCESS : NVML_ERROR_INSUFFICIENT_SIZE;
  });
}
}  // namespace

nvmlReturn_t nvmlInit_v2() {
  const std::scoped_lock lock(library.mutex);
  if (library.users == 0)
    if (const nvmlReturn_t result = open_machine(); result != NVML_SUCCESS) return result;
  ++library.users;
  return NVML_SUCCESS;
}

nvmlReturn_t nvmlShutdown() {
  const std::scoped_lock lock(library.mutex);
  if (library.users == 0) return NVML_ERROR_UNINITIALIZED;
  if (--library.users == 0) library.machine.reset();
  return NVML_SUCCESS;
}

const char* nvmlErrorString(nvmlReturn_t result) {
  return result == NVML_SUCCESS ? "Success" : "Error of the emulated NVML";
}

nvmlReturn_t nvmlSystemGetDriverVersion(char* version, unsigned size) {
  return version == nullptr ? NVML_ERROR_INVALID_ARGUMENT : write("580.00", version, size);
}

nvmlReturn_t nvmlSystemGetCudaDriverVersion_v2(int* version) {
  if (version == nullptr) return NVML_ERROR_INVALID_ARGUMENT;
  *version = 13000;
  return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetCount_v2(unsigned* count) {
  const std::scoped_lock lock(library.mutex);
  if (library.machine == nullptr) return NVML_ERROR_UNINITIALIZED;
  if (count == nullptr) return NVML_ERROR_INVALID_ARGUMENT;
  *count = library.machine->spec().devices;
  return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetHandleByIndex_v2(unsigned index, nvmlDevice_t* device) {
  const nvmlDevice_t handle = handle_of(index);
  return with_device(handle, device, [&](const MachineState&, std::uint32_t) {
    *device = handle;
    return NVML_SUCCESS;
  });
}

nvmlReturn_t nvmlDeviceGetHandleByUUID(const char* uuid, nvmlDevice_t* device) {
  if (uuid == nullptr) return NVML_ERROR_INVALID_ARGUMENT;
  unsigned count = 0;
  if (const nvmlReturn_t result = nvmlDeviceGetCount_v2(&count); result != NVML_SUCCESS)
    return result;
  for (unsigned i = 0; i < count; ++i)
    if (uuid_text(i) == uuid) return nvmlDeviceGetHandleByIndex_v2(i, device);
  return NVML_ERROR_NOT_FOUND;
}

nvmlReturn_t nvmlDeviceGetIndex(nvmlDevice_t device, unsigned* index) {
  return with_device(device, index, [&](const MachineState&, std::uint32_t number) {
    *index = number;
    return NVML_SUCCESS;
  });
}

nvmlReturn_t nvmlDeviceGetUUID(nvmlDevice_t device, char* uuid, unsigned size) {
  return with_device(device, uuid, [&](const MachineState&, std::uint32_t number) {
    return write(uuid_text(number), uuid, size);
  });
}

nvmlReturn_t nvmlDeviceGetName(nvmlDevice_t device, char* name, unsigned size) {
  return with_device(device, name, [&](const MachineState& state, std::uint32_t number) {
    return write(device_name(state.spec.is_small(number)), name, size);
  });
}

nvmlReturn_t nvmlDeviceGetCudaComputeCapability(nvmlDevice_t device, int* major, int* minor) {
  if (minor == nullptr) return NVML_ERROR_INVALID_ARGUMENT;
  return with_device(device, major, [&](const MachineState&, std::uint32_t) {
    *major = 9;
    *minor = 0;
    return NVML_SUCCESS;
  });
}

nvmlReturn_t nvmlDeviceGetNumGpuCores(nvmlDevice_t device, unsigned* count) {
  return with_device(device, count, [&](const MachineState& state, std::uint32_t number) {
    *count = state.spec.spec_of(number).sms * kCoresInSm;
    return NVML_SUCCESS;
  });
}

nvmlReturn_t nvmlDeviceGetMigMode(nvmlDevice_t device, unsigned* current, unsigned* pending) {
  return with_device(device, current, [&](const MachineState& state, std::uint32_t) {
    *current = *pending = state.spec.mig ? 1 : 0;
    return NVML_SUCCESS;
  });
}

nvmlReturn_t nvmlDeviceGetMemoryInfo(nvmlDevice_t device, nvmlMemory_t* memory) {
  return with_device(device, memory, [&](const MachineState& state, std::uint32_t number) {
    const std::uint64_t used = memory_used(state, number);
    *memory = {state.spec.memory, state.spec.memory - used, used};
    return NVML_SUCCESS;
  });
}

nvmlReturn_t nvmlDeviceGetMemoryInfo_v2(nvmlDevice_t device, nvmlMemory_v2_t* memory) {
  return with_device(device, memory, [&](const MachineState& state, std::uint32_t number) {
    if (memory->version != nvmlMemory_v2) return NVML_ERROR_ARGUMENT_VERSION_MISMATCH;
    const std::uint64_t used = memory_used(state, number);
    *memory = {nvmlMemory_v2, state.spec.memory, 0, state.spec.memory - used, used};
    return NVML_SUCCESS;
  });
}

nvmlReturn_t nvmlDeviceGetUtilizationRates(nvmlDevice_t device, nvmlUtilization_t* utilization) {
  return with_device(device, utilization, [&](const MachineState& state, std::uint32_t number) {
    const DeviceModel& model = state.devices[number];
    NvmlSample& sample = library.samples[number];
    const Ns passed = model.now() - sample.at;
    if (sample.at < 0 || passed >= kSample) {
      const Ns busy = model.device_busy_ns() - sample.busy;
      sample = {model.now(), model.device_busy_ns(),
                sample.at < 0 ? 0 : static_cast<unsigned>(busy * 100 / passed)};
    }
    *utilization = {sample.percent, 0};
    return NVML_SUCCESS;
  });
}

nvmlReturn_t nvmlDeviceGetComputeRunningProcesses(nvmlDevice_t device, unsigned* count,
                                                  nvmlProcessInfo_v1_t* processes) {
  return list_processes(device, count, processes, false);
}
nvmlReturn_t nvmlDeviceGetComputeRunningProcesses_v3(nvmlDevice_t device, unsigned* count,
                                                     nvmlProcessInfo_t* processes) {
  return list_processes(device, count, processes, false);
}
nvmlReturn_t nvmlDeviceGetMPSComputeRunningProcesses_v3(nvmlDevice_t device, unsigned* count,
                                                        nvmlProcessInfo_t* processes) {
  return list_processes(device, count, processes, true);
}
