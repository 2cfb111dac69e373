#include "control/spec/validate.h"

#include <algorithm>
#include <set>

#include "model/quantity.h"

namespace sluice::control {
namespace {

Error invalid(const std::string& field, const std::string& why) {
  return {ErrorKind::kInvalid, field + ": " + why};
}

// Returns "50% or 100%": what the widths of slices must be multiples of.
std::string quanta(const std::vector<const Device*>& devices) {
  std::set<Share> all;
  for (const Device* d : devices) all.insert(d->sm_quantum);
  std::string out;
  for (const Share q : all) out += (out.empty() ? "" : " or ") + format_share(q);
  return out;
}

// Returns "cpu", or "cpu and cuda".
std::string kinds(const std::vector<Device>& devices) {
  const auto has = [&](DeviceKind kind) {
    return std::ranges::find(devices, kind, &Device::kind) != devices.end();
  };
  const bool cpu = has(DeviceKind::kCpu), cuda = has(DeviceKind::kCuda);
  return cpu && cuda ? "cpu and cuda" : cpu ? "cpu" : "cuda";
}

std::string listed_types(const std::vector<Device>& devices) {
  std::string all;
  for (const Device* d : one_of_each_type(devices))
    all += (all.empty() ? "'" : ", '") + type_of(*d).name + "'";
  return all;
}

// A node has a device of each type that the function names.
Result<void> check_types(const FunctionSpec& spec, const std::vector<Device>& devices) {
  const auto check = [&](const char* field, const std::string& type) -> Result<void> {
    const auto is_of_it = [&](const Device& d) {
      return type_of(d).name == type && spec.runs_on(d.kind);
    };
    if (devices.empty() || std::ranges::any_of(devices, is_of_it)) return {};
    return invalid(field, "'" + type + "': no node has a device of this type that the function " +
                              "may use; there are " + listed_types(devices));
  };
  for (const std::string& type : spec.device_types) SLUICE_TRY(check("deviceTypes", type));
  if (spec.is_inference())
    for (const ModelVariant& v : spec.inference().variants)
      if (!v.device_type.empty()) SLUICE_TRY(check("variants.deviceType", v.device_type));
  return {};
}

// Some device that the function may use has the memory that its instances want there.
Result<void> check_memory(const FunctionSpec& spec, const std::vector<const Device*>& its) {
  const Bytes of_slice = spec.slice ? spec.slice->memory : 0;
  const Device* largest = nullptr;
  for (const Device* d : its) {
    if (d->memory <= 0 || std::max(spec.memory_on(d->kind), of_slice) <= d->memory) return {};
    if (largest == nullptr || d->memory > largest->memory) largest = d;
  }
  if (largest == nullptr) return {};
  const bool of_gpus = largest->kind == DeviceKind::kCuda && spec.gpu_memory > 0;
  return invalid(of_gpus ? "gpuMemory" : "memory",
                 format_bytes(std::max(spec.memory_on(largest->kind), of_slice)) +
                     " is more than any device has (at most " + format_bytes(largest->memory) +
                     ")");
}

}  // namespace

Result<void> check_feasible(const FunctionSpec& spec, const std::vector<Device>& devices,
                            std::optional<Nanos> fastest) {
  std::vector<const Device*> its;
  for (const Device& d : devices)
    if (spec.may_use(d)) its.push_back(&d);
  SLUICE_TRY(check_types(spec, devices));
  if (its.empty() && !devices.empty())
    return invalid("device", "'" + (spec.device.empty() ? "cpu" : spec.device) +
                                 "': no node has such a device; there is " + kinds(devices));
  const auto holds = [&](const Device* d) {
    return spec.slice->sm.permille % d->sm_quantum.permille == 0;
  };
  if (spec.slice && !its.empty() && std::ranges::none_of(its, holds))
    return invalid("slice.sm", format_share(spec.slice->sm) +
                                   " is not a supported width; the devices here support "
                                   "multiples of " +
                                   quanta(its) + ".");
  SLUICE_TRY(check_memory(spec, its));
  if (!spec.is_inference()) {
    const auto there = static_cast<int>(its.size());
    if (there > 0 && spec.training().min_workers > there)
      return invalid("leastDevices", std::to_string(spec.training().min_workers) +
                                         " is more than there are: " + std::to_string(there));
    return {};
  }
  const Nanos slo = spec.inference().slo.latency;
  if (fastest && slo > Nanos(0) && slo < *fastest) {
    const Nanos in_ms = (*fastest + Millis(1) - Nanos(1)) / Millis(1) * Millis(1);
    return invalid("slo.latency",
                   format_duration(slo) + " is less than the " + format_duration(in_ms) +
                       " in which a whole device here answers at best, as was measured");
  }
  return {};
}

std::vector<std::string> contradictions(const InferenceSpec& spec) {
  const bool stated = spec.scale_to_zero_after != InferenceSpec{}.scale_to_zero_after;
  if (!stated || spec.min_replicas == 0) return {};
  return {"scaleToZeroAfter: " + format_duration(spec.scale_to_zero_after) +
          " has no effect with minReplicas: " + std::to_string(spec.min_replicas) +
          "; the last instance stops with minReplicas: 0 alone"};
}

}  // namespace sluice::control
