// The emulated NVML's counters of Hopper and later GPUs: occupancy alone. The device model knows no
// warps: an SM that runs a block counts as full, so that occupancy is the SMs' busy time.
#include "tests/emulator/nvml_library.h"

using namespace sluice::emulator;

struct nvmlGpmSample_st {
  std::uint32_t device = kDevices;  // kDevices: it was never taken
  Ns at = 0, sm_ns = 0;
};

nvmlReturn_t nvmlGpmSampleAlloc(nvmlGpmSample_t* sample) {
  if (sample == nullptr) return NVML_ERROR_INVALID_ARGUMENT;
  *sample = new nvmlGpmSample_st;
  return NVML_SUCCESS;
}

nvmlReturn_t nvmlGpmSampleFree(nvmlGpmSample_t sample) {
  delete sample;
  return NVML_SUCCESS;
}

nvmlReturn_t nvmlGpmSampleGet(nvmlDevice_t device, nvmlGpmSample_t sample) {
  return with_device(device, sample, [&](const MachineState& state, std::uint32_t number) {
    const DeviceModel& model = state.devices[number];
    *sample = {number, model.now(), model.device_sm_ns()};
    return NVML_SUCCESS;
  });
}

nvmlReturn_t nvmlGpmMetricsGet(nvmlGpmMetricsGet_t* asked) {
  if (asked == nullptr || asked->sample1 == nullptr || asked->sample2 == nullptr)
    return NVML_ERROR_INVALID_ARGUMENT;
  if (asked->version != NVML_GPM_METRICS_GET_VERSION) return NVML_ERROR_ARGUMENT_VERSION_MISMATCH;
  const nvmlGpmSample_st &first = *asked->sample1, &second = *asked->sample2;
  if (first.device != second.device || first.device == kDevices || second.at <= first.at)
    return NVML_ERROR_INVALID_ARGUMENT;
  const std::scoped_lock lock(nvml_library().mutex);
  if (nvml_library().machine == nullptr) return NVML_ERROR_UNINITIALIZED;
  const Ns most = (second.at - first.at) * nvml_library().machine->spec().spec_of(first.device).sms;
  for (unsigned i = 0; i < asked->numMetrics; ++i) {
    nvmlGpmMetric_t& metric = asked->metrics[i];
    const bool known = metric.metricId == NVML_GPM_METRIC_SM_OCCUPANCY;
    metric.nvmlReturn = known ? NVML_SUCCESS : NVML_ERROR_NOT_SUPPORTED;
    if (known)
      metric.value =
          100.0 * static_cast<double>(second.sm_ns - first.sm_ns) / static_cast<double>(most);
  }
  return NVML_SUCCESS;
}
