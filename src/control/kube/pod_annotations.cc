#include "control/kube/pod_annotations.h"

#include <charconv>
#include <string_view>

#include "base/printable.h"
#include "model/quantity.h"

namespace sluice::control {
namespace {

using Annotations = std::map<std::string, std::string>;

constexpr size_t kShown = 100;  // of a value's 256 KiB: what is said of it is in Events and logs

const std::string* find(const Annotations& all, const char* name) {
  const auto found = all.find(name);
  return found != all.end() ? &found->second : nullptr;
}

Error about(const char* annotation, const std::string& value, const Error& why) {
  return {ErrorKind::kInvalid,
          "annotation " + std::string(annotation) + ": '" + printable(value, kShown) +
              "': " + (value.size() > kShown ? "that is too long" : why.message)};
}

// "30%" or "30%-60%".
Result<Quota> parse_quota(const std::string& text) {
  const size_t dash = text.find('-');
  SLUICE_ASSIGN(request, parse_share(text.substr(0, dash)));
  if (dash == text.npos) return Quota{request, request};
  SLUICE_ASSIGN(limit, parse_share(text.substr(dash + 1)));
  if (limit < request)
    return Error{ErrorKind::kInvalid, "the most is below what is guaranteed; 30%-60% is allowed"};
  return Quota{request, limit};
}

Result<DeviceKind> parse_kind(const std::string* text) {
  if (text == nullptr || *text == "cpu") return DeviceKind::kCpu;
  if (*text == "cuda") return DeviceKind::kCuda;
  return Error{ErrorKind::kInvalid, "cpu and cuda are allowed"};
}

}  // namespace

Result<std::optional<PodSlice>> slice_of(const Annotations& all) {
  const std::string *quota = find(all, kQuotaAnnotation), *sm = find(all, kSmAnnotation),
                    *memory = find(all, kMemoryAnnotation), *device = find(all, kDeviceAnnotation);
  if (quota == nullptr && sm == nullptr && memory == nullptr && device == nullptr)
    return std::optional<PodSlice>();
  const auto kind = parse_kind(device);
  if (!kind.ok()) return about(kDeviceAnnotation, *device, kind.error());
  Slice slice{.sm = kWhole, .quota = {kWhole, kWhole}};
  if (quota != nullptr) {
    const auto parsed = parse_quota(*quota);
    if (!parsed.ok()) return about(kQuotaAnnotation, *quota, parsed.error());
    slice.quota = *parsed;
  }
  if (sm != nullptr) {
    const auto parsed = parse_share(*sm);
    if (!parsed.ok()) return about(kSmAnnotation, *sm, parsed.error());
    if (*kind == DeviceKind::kCuda && *parsed != kWhole)
      return about(kSmAnnotation, *sm,
                   {ErrorKind::kInvalid,
                    "a Pod has all SMs of its GPU, as it is no client of MPS; sluice.dev/quota is "
                    "a part of the GPU's time"});
    slice.sm = *parsed;
  }
  if (memory != nullptr) {
    const auto parsed = parse_bytes(*memory);
    if (!parsed.ok()) return about(kMemoryAnnotation, *memory, parsed.error());
    slice.memory = *parsed;
    if (*kind != DeviceKind::kCuda)
      return about(
          kMemoryAnnotation, *memory,
          {ErrorKind::kInvalid, "it is of a GPU; annotation sluice.dev/device: cuda asks for one"});
  }
  return std::optional<PodSlice>(PodSlice{slice, *kind});
}

Result<Share> parse_quota_sum(const std::string& text) {
  int percent = 0;
  const char* end = text.data() + text.size();
  const auto [at, fault] = std::from_chars(text.data(), end, percent);
  if (fault != std::errc() || std::string_view(at, end) != "%" || percent < 0 ||
      percent > 1'000'000)
    return Error{ErrorKind::kInvalid,
                 "'" + text + "': whole percent of a device are allowed: 250%"};
  return Share{percent * 10};
}

}  // namespace sluice::control
