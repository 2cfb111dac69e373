// What the emulated NVML says about where devices sit and what joins them: devices 0 and 1 behind
// one PCIe switch, 2 and 3 behind another, all at one host bridge; between each two as many NVLinks
// as the machine was made with, those to the first other device first.
#include <string>

#include "tests/emulator/identity.h"
#include "tests/emulator/nvml_library.h"

using namespace sluice::emulator;

namespace {
void write_pci(std::uint32_t device, nvmlPciInfo_t* pci) {
  *pci = {};
  pci->bus = device + 1;
  const std::string text = bus_text(device);
  text.copy(pci->busIdLegacy, sizeof pci->busIdLegacy - 1);
  ("0000" + text).copy(pci->busId, sizeof pci->busId - 1);
}

// Returns the device at a link's other end; kDevices if there is none.
std::uint32_t other_end(const MachineSpec& spec, std::uint32_t device, unsigned link) {
  if (spec.nvlinks == 0) return kDevices;
  const std::uint32_t other = link / spec.nvlinks;
  const std::uint32_t peer = other < device ? other : other + 1;
  return peer < spec.devices ? peer : kDevices;
}

template <typename F>
nvmlReturn_t with_link(nvmlDevice_t device, unsigned link, const void* out, F&& look) {
  return with_device(device, out, [&](const MachineState& state, std::uint32_t index) {
    if (link >= NVML_NVLINK_MAX_LINKS) return NVML_ERROR_INVALID_ARGUMENT;
    const std::uint32_t peer = other_end(state.spec, index, link);
    if (peer == kDevices) return NVML_ERROR_NOT_SUPPORTED;
    look(peer);
    return NVML_SUCCESS;
  });
}
}  // namespace

nvmlReturn_t nvmlDeviceGetPciInfo_v3(nvmlDevice_t device, nvmlPciInfo_t* pci) {
  return with_device(device, pci, [&](const MachineState&, std::uint32_t index) {
    write_pci(index, pci);
    return NVML_SUCCESS;
  });
}

nvmlReturn_t nvmlDeviceGetHandleByPciBusId_v2(const char* bus, nvmlDevice_t* device) {
  if (bus == nullptr) return NVML_ERROR_INVALID_ARGUMENT;
  unsigned count = 0;
  if (const nvmlReturn_t result = nvmlDeviceGetCount_v2(&count); result != NVML_SUCCESS)
    return result;
  for (unsigned i = 0; i < count; ++i)
    if (bus_text(i) == bus) return nvmlDeviceGetHandleByIndex_v2(i, device);
  return NVML_ERROR_NOT_FOUND;
}

nvmlReturn_t nvmlDeviceGetTopologyCommonAncestor(nvmlDevice_t one, nvmlDevice_t other,
                                                 nvmlGpuTopologyLevel_t* level) {
  return with_device(one, level, [&](const MachineState&, std::uint32_t first) {
    const std::uint32_t second = index_of(other);
    if (second == kDevices || second == first) return NVML_ERROR_INVALID_ARGUMENT;
    *level = first / 2 == second / 2 ? NVML_TOPOLOGY_SINGLE : NVML_TOPOLOGY_HOSTBRIDGE;
    return NVML_SUCCESS;
  });
}

nvmlReturn_t nvmlDeviceGetNvLinkState(nvmlDevice_t device, unsigned link,
                                      nvmlEnableState_t* state) {
  return with_link(device, link, state, [&](std::uint32_t) { *state = NVML_FEATURE_ENABLED; });
}

nvmlReturn_t nvmlDeviceGetNvLinkRemoteDeviceType(nvmlDevice_t device, unsigned link,
                                                 nvmlIntNvLinkDeviceType_t* type) {
  return with_link(device, link, type, [&](std::uint32_t) { *type = NVML_NVLINK_DEVICE_TYPE_GPU; });
}

nvmlReturn_t nvmlDeviceGetNvLinkRemotePciInfo_v2(nvmlDevice_t device, unsigned link,
                                                 nvmlPciInfo_t* pci) {
  return with_link(device, link, pci, [&](std::uint32_t peer) { write_pci(peer, pci); });
}
