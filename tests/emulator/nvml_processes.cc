// The emulated NVML's account of processes: whole percents, of samples a sixth of a second apart at
// least, and nothing of clients of MPS, as on a device.
#include <algorithm>
#include <ctime>

#include "tests/emulator/nvml_library.h"

using namespace sluice::emulator;

namespace {
constexpr Ns kSample = 166'000'000;
constexpr std::size_t kKept = 64;

// The CPU's clock when a virtual one does not stand for it.
unsigned long long stamp(const MachineState& state, Ns at) {
  if (state.spec.virtual_clock) return static_cast<unsigned long long>(at) / 1000;
  const auto read = [](clockid_t clock) {
    timespec t{};
    clock_gettime(clock, &t);
    return Ns{t.tv_sec} * 1'000'000'000 + t.tv_nsec;
  };
  const Ns ahead = read(CLOCK_REALTIME) - read(CLOCK_MONOTONIC);
  return static_cast<unsigned long long>(at + ahead) / 1000;
}

void take_sample(const MachineState& state, std::uint32_t device,
                 std::deque<NvmlProcessSample>& samples) {
  const DeviceModel& model = state.devices[device];
  if (!samples.empty() && model.now() - samples.back().at < kSample) return;
  NvmlProcessSample& sample = samples.emplace_back();
  sample.at = model.now();
  for (const Process& p : state.processes)
    if (p.used && p.client[device] != DeviceModel::kNone)
      sample.busy[p.pid] = model.usage(p.client[device]).busy_ns;
  if (samples.size() > kKept) samples.pop_front();
}

// The newest that was there by then; the oldest if none was.
const NvmlProcessSample& seen_last(const MachineState& state, unsigned long long last_seen,
                                   const std::deque<NvmlProcessSample>& samples) {
  constexpr unsigned long long kRounded = 1;
  const auto later = std::find_if(samples.begin() + 1, samples.end(), [&](const auto& s) {
    return stamp(state, s.at) > last_seen + kRounded;
  });
  return *(later - 1);
}
}  // namespace

nvmlReturn_t nvmlDeviceGetProcessUtilization(nvmlDevice_t device,
                                             nvmlProcessUtilizationSample_t* to, unsigned* count,
                                             unsigned long long last_seen) {
  return with_device(device, count, [&](const MachineState& state, std::uint32_t index) {
    if (state.devices[index].spec().shared) return NVML_ERROR_NOT_FOUND;
    auto& samples = nvml_library().processes[index];
    take_sample(state, index, samples);
    const NvmlProcessSample &now = samples.back(), &then = seen_last(state, last_seen, samples);
    unsigned found = 0;
    for (const auto& [pid, busy] : now.busy) {
      const auto before = then.busy.find(pid);
      const Ns used = busy - (before == then.busy.end() ? 0 : before->second);
      if (now.at == then.at || used == 0) continue;
      if (to != nullptr && found < *count)
        to[found] = {.pid = static_cast<unsigned>(pid),
                     .timeStamp = stamp(state, now.at),
                     .smUtil = static_cast<unsigned>(used * 100 / (now.at - then.at)),
                     .memUtil = 0,
                     .encUtil = 0,
                     .decUtil = 0};
      ++found;
    }
    if (found == 0) return NVML_ERROR_NOT_FOUND;
    const bool fits = to != nullptr && found <= *count;
    *count = found;
    return fits ? NVML_SUCCESS : NVML_ERROR_INSUFFICIENT_SIZE;
  });
}
