#include "node/gpu_devices.h"

#include <algorithm>
#include <map>

namespace sluice::node {
namespace {

constexpr char kAbsent[] = "NVML does not find it any more";

// Returns the first free "cuda…", and takes it.
DeviceId free_id(std::set<DeviceId>& taken) {
  for (int i = 0;; ++i)
    if (const auto [id, fresh] = taken.insert("cuda" + std::to_string(i)); fresh) return *id;
}

void keep_drained(Device& found, const Device& known) {
  if (known.fault == kAbsent) return;  // it is back
  // A device that was set apart may have been cordoned only for that.
  found.drained |= known.drained && known.set_apart.empty();
  if (found.fault.empty()) found.fault = known.fault;
}

// Sets the finest share of its SMs that clients can be held to, and by which method.
void let_clients_share(Device& gpu, const GpuSettings& settings) {
  if (!gpu.mps || settings.mps.empty()) return;
  gpu.sm_quantum = kMpsQuantum;
}

void keep_what_is_held(Device& found, const Device& known) {
  found.sm_quantum = std::min(found.sm_quantum, known.sm_quantum);
  found.memory = std::max(found.memory, known.memory);
}

}  // namespace

// The quantum decides, not the settings: clients that MPS confines live on under a daemon that was
// started without MPS.
bool goes_side_by_side(const Device& device) {
  return device.kind == DeviceKind::kCuda && device.sm_quantum < kWhole;
}

std::vector<LocalDevice> merge_gpus(const std::vector<LocalDevice>& known,
                                    const std::vector<Device>& found,
                                    const std::set<DeviceId>& held, const std::string& node,
                                    const GpuSettings& settings) {
  std::map<std::string, Device> absent;  // by UUID
  std::set<DeviceId> taken;
  for (const LocalDevice& d : known)
    if (d.device.kind == DeviceKind::kCuda) {
      absent.emplace(d.device.uuid, d.device);
      taken.insert(d.device.id);
    }

  std::vector<LocalDevice> devices;
  std::map<std::string, DeviceId> ids;  // by UUID
  for (Device gpu : found) {
    const auto before = absent.find(gpu.uuid);
    gpu.id = before == absent.end() ? free_id(taken) : before->second.id;
    gpu.node = node;
    gpu.price_per_hour = settings.price_per_hour;
    let_clients_share(gpu, settings);
    gpu.memory = std::max(gpu.memory - settings.store, Bytes{0});
    if (before != absent.end()) {
      if (held.contains(gpu.id)) keep_what_is_held(gpu, before->second);
      keep_drained(gpu, before->second);
      absent.erase(before);
    }
    ids[gpu.uuid] = gpu.id;
    devices.push_back({std::move(gpu), {}});
  }
  for (LocalDevice& d : devices) {
    for (DeviceLink& link : d.device.links) link.to = ids.at(link.to);
    std::ranges::sort(d.device.links, {}, &DeviceLink::to);
  }
  for (auto& [uuid, gpu] : absent) {
    if (!held.contains(gpu.id)) continue;
    if (!gpu.drained) gpu.fault = kAbsent;  // else it stays cordoned when it is back
    gpu.drained = true;
    gpu.links.clear();
    devices.push_back({std::move(gpu), {}});
  }
  return devices;
}

}  // namespace sluice::node
