#include "node/cpu_devices.h"

#include <algorithm>
#include <cctype>
#include <charconv>

namespace sluice::node {
namespace {

constexpr int kFewestDevices = 4;
constexpr int kMostDevices = 1024;
constexpr int kSmallestShare = 10;  // millicores; a smaller device could run nothing in a window
constexpr int kMostMillicores = 1'000'000;
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

// "1x740m" of "big=1x740m".
Result<CpuType> parse_type(std::string_view text) {
  const size_t equals = text.find('='), times = text.find('x', std::min(equals, text.size()));
  CpuType type;
  const auto number = [&](size_t from, size_t to, int most, int& out) {
    const auto [end, fault] = std::from_chars(text.data() + from, text.data() + to, out);
    return fault == std::errc() && end == text.data() + to && out >= 1 && out <= most;
  };
  const bool reads = equals != text.npos && times != text.npos && text.ends_with('m') &&
                     number(equals + 1, times, kMostDevices, type.count) &&
                     number(times + 1, text.size() - 1, kMostMillicores, type.millicores);
  if (reads) type.name = text.substr(0, equals);
  const auto is_plain = [](char c) {
    return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '-' || c == '_' || c == '.';
  };
  if (type.name.empty() || type.name.size() > 63 || !std::ranges::all_of(type.name, is_plain))
    return Error{ErrorKind::kInvalid,
                 "devices: '" + std::string(text) +
                     "': a number is wanted, or types as in big=1x740m,little=2x400m: a name, how "
                     "many, and the thousandths of a core of each"};
  return type;
}

Result<void> check(const std::vector<CpuType>& types, int usable) {
  int64_t all = 0;
  const bool whole = types.front().millicores >= 1000;
  for (const CpuType& t : types) {
    all += int64_t{t.count} * t.millicores;
    const bool fits =
        whole ? t.millicores % 1000 == 0 && exact_cores(t.millicores / 1000) * 1000 == t.millicores
              : t.millicores < 1000 && t.millicores >= kSmallestShare;
    if (!fits)
      return Error{
          ErrorKind::kInvalid,
          "devices: " + t.name + ": " + std::to_string(t.millicores) +
              "m: all types must be shares of a core, from 10m to 999m, or all be of whole "
              "cores whose number divides 1000"};
    if (std::ranges::count(types, t.name, &CpuType::name) > 1)
      return Error{ErrorKind::kInvalid, "devices: " + t.name + " stands twice"};
  }
  if (all > usable)
    return Error{ErrorKind::kInvalid, "devices: they take " + std::to_string(all) +
                                          " millicores; the machine has " + std::to_string(usable) +
                                          " beside the platform's own"};
  return {};
}

Result<CpuSplit> split_types(const Machine& machine, const CpuSettings& settings, int usable) {
  SLUICE_TRY(check(settings.types, usable));
  int devices = 0, taken = 0;
  for (const CpuType& t : settings.types) devices += t.count, taken += t.count * t.millicores;
  CpuSplit split{.reserve_millicores = static_cast<int>(machine.cores.size()) * 1000 - taken};
  const bool whole = settings.types.front().millicores >= 1000;
  auto core = machine.cores.begin();
  if (whole) {
    core += split.reserve_millicores / 1000;
    split.reserve.assign(machine.cores.begin(), core);
  }
  for (const CpuType& t : settings.types)
    for (int i = 0; i < t.count; ++i) {
      const int number = static_cast<int>(split.devices.size());
      LocalDevice& d = split.devices.emplace_back(
          LocalDevice{device_of(machine, settings, number, t.millicores, devices), {}});
      d.device.type_name = t.name;
      if (!whole) continue;
      d.cores.assign(core, core + t.millicores / 1000);
      core += t.millicores / 1000;
    }
  return split;
}

}  // namespace

Result<void> parse_cpu_devices(std::string_view text, CpuSettings& settings) {
  int number = 0;
  const auto [end, fault] = std::from_chars(text.data(), text.data() + text.size(), number);
  settings.devices = 0;
  settings.types.clear();
  if (fault == std::errc() && end == text.data() + text.size()) {
    settings.devices = number;
    if (number >= 0 && number <= kMostDevices) return {};
    return Error{ErrorKind::kInvalid, "devices: Value " + std::to_string(number) +
                                          " not in range 0 to " + std::to_string(kMostDevices)};
  }
  for (bool more = true; more;) {
    const size_t comma = text.find(',');
    more = comma != text.npos;
    SLUICE_ASSIGN(type, parse_type(text.substr(0, comma)));
    settings.types.push_back(type);
    if (more) text.remove_prefix(comma + 1);
  }
  return {};
}

Result<CpuSplit> split_cpu(const Machine& machine, const CpuSettings& settings) {
  const int cores = static_cast<int>(machine.cores.size());
  if (cores == 0) return Error{ErrorKind::kInvalid, "machine: has no core that we may use"};
  if (settings.devices < 0 || settings.devices > kMostDevices)
    return Error{ErrorKind::kInvalid, "devices: " + std::to_string(settings.devices) +
                                          " is not between 1 and " + std::to_string(kMostDevices)};
  const int usable = cores * 1000 - reserve_millicores(cores);
  if (!settings.types.empty()) return split_types(machine, settings, usable);
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
