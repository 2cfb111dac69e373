// The slice that a Pod of a user asks for by its annotations:
//
//   sluice.dev/quota: 30%         of a device's time, guaranteed; or 30%-60%: and the most
//   sluice.dev/sm: 50%            of a CPU device's cores; without, all
//   sluice.dev/device: cuda       on a GPU; cpu, or nothing: on a CPU device
//   sluice.dev/memory: 2Gi        of a GPU's memory
//
// Pure.
#pragma once

#include <map>
#include <optional>
#include <string>

#include "base/result.h"
#include "model/device.h"
#include "model/slice.h"

namespace sluice::control {

inline constexpr const char* kQuotaAnnotation = "sluice.dev/quota";
inline constexpr const char* kSmAnnotation = "sluice.dev/sm";
inline constexpr const char* kMemoryAnnotation = "sluice.dev/memory";
inline constexpr const char* kDeviceAnnotation = "sluice.dev/device";
// The agent writes it once it holds a GPU's slice for the Pod: the UUID of the GPU.
inline constexpr const char* kGpuAnnotation = "sluice.dev/gpu";
// A resource of Nodes with GPUs, and of Pods with slices of them: thousandths of a GPU.
inline constexpr const char* kGpuResource = "sluice.dev/gpu-permille";

struct PodSlice {
  Slice slice;
  DeviceKind kind = DeviceKind::kCpu;

  bool on_gpu() const { return kind == DeviceKind::kCuda; }
  // Thousandths of a device, rounded up.
  int64_t permille() const { return (area(slice) + 999) / 1000; }
  bool operator==(const PodSlice&) const = default;
};

// Returns nothing for a Pod that asks for none. kInvalid names the annotation, its value and what
// is allowed.
Result<std::optional<PodSlice>> slice_of(const std::map<std::string, std::string>& annotations);

// What the Pods of a namespace may hold together: "250%", which may be more than one device.
Result<Share> parse_quota_sum(const std::string& text);

}  // namespace sluice::control
