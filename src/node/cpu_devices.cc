#include "node/cpu_devices.h"

#include <algorithm>

namespace sluice::node {
namespace {

constexpr int kFewestDevices = 4;
constexpr int kMostDevices = 1024;
constexpr int kSmallestShare = 10;  // millicores; a smaller device could run nothing in a window
constexpr Bytes kMiB = 1 << 20;

int reserve_millicores(int cores) {
  return std::max(400, cores * 1000 / 5);
}

// Returns the largest number of cores up to `cores` in which a permille share can be exact.
int exact_cores(int cores) {
  while (1000 % cores != 0) --cores;
  return cores;
}

Device device_of(const Machine& machine, const CpuSettings& settings, int number, int millicores,
                 int of) {
  Device d;
  d.id = "cpu" + std::to_string(number);
  d.kind = DeviceKind::kCpu;
  d.node = machine.node;
  d.model = machine.cpu_model;
  d.millicores = millicores;
  d.memory = machine.memory / 5 * 4 / of / kMiB * kMiB;
  d.sm_quantum = millicores >= 1000 ? Share{1000 / (millicores / 1000)} : kWhole;
  d.can_resize_sm = true;
  d.price_per_hour = settings.price_per_core_hour * millicores / 1000;
  return d;
}

CpuSplit split_whole(const Machine& machine, const CpuSettings& settings, int devices, int each) {
  CpuSplit split;
  // The reserve has the first cores: interrupts prefer those.
  const size_t reserved = machine.cores.size() - static_cast<size_t>(devices * each);
  auto core = machine.cores.begin() + static_cast<std::ptrdiff_t>(reserved);
  split.reserve.assign(machine.cores.begin(), core);
  split.reserve_millicores = static_cast<int>(reserved) * 1000;
  for (int i = 0; i < devices; ++i, core += each)
    split.devices.push_back(
        {device_of(machine, settings, i, each * 1000, devices), {core, core + each}});
  return split;
}

}  // namespace

Result<CpuSplit> split_cpu(const Machine& machine, const CpuSettings& settings) {
  const int cores = static_cast<int>(machine.cores.size());
  if (cores == 0) return Error{ErrorKind::kInvalid, "machine: has no core that we may use"};
  if (settings.devices < 0 || settings.devices > kMostDevices)
    return Error{ErrorKind::kInvalid, "devices: " + std::to_string(settings.devices) +
                                          " is not between 1 and " + std::to_string(kMostDevices)};
  const int usable = cores * 1000 - reserve_millicores(cores);
  const int fewest = settings.devices > 0 ? settings.devices : kFewestDevices;
  if (const int most = usable / 1000 / fewest; most >= 1) {
    const int each = exact_cores(most);
    const int devices = settings.devices > 0 ? settings.devices : usable / 1000 / each;
    return split_whole(machine, settings, devices, each);
  }
  const int each = usable / fewest / kSmallestShare * kSmallestShare;
  if (each == 0)
    return Error{ErrorKind::kInvalid, "devices: " + std::to_string(fewest) +
                                          " would each have less than " +
                                          std::to_string(kSmallestShare) + " of the machine's " +
                                          std::to_string(usable) + " millicores"};
  CpuSplit split;
  split.reserve_millicores = cores * 1000 - each * fewest;
  for (int i = 0; i < fewest; ++i)
    split.devices.push_back({device_of(machine, settings, i, each, fewest), {}});
  return split;
}

std::vector<int> cores_of(const LocalDevice& device, Share sm_begin, Share sm) {
  const int cores = static_cast<int>(device.cores.size());
  const auto first = device.cores.begin() + sm_begin.permille * cores / 1000;
  return {first, device.cores.begin() + (sm_begin + sm).permille * cores / 1000};
}

int threads_of(const Device& device, Share sm) {
  return std::max(1, (device.millicores * sm.permille / 1000 + 999) / 1000);
}

}  // namespace sluice::node
